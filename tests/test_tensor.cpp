// Shapes, writing, storage and printing.
#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

#include "tensor/print.h"
#include "tests/elements.h"
#include "tests/helpers.h"

TEST(Shape, CountsAndNamesItsAxes) {
  const Shape s{2, 3, 5};
  EXPECT_EQ(s.rank(), 3);
  EXPECT_EQ(s.numel(), 30);
  EXPECT_EQ(s[-1], 5);
  EXPECT_EQ(s[-3], 2);
  EXPECT_EQ(s.axis(-2), 1);
  EXPECT_EQ(s.with(-1, 7), Shape({2, 3, 7}));
  EXPECT_EQ(s, Shape({2, 3, 5}));
  EXPECT_NE(s, Shape({2, 3}));
  EXPECT_NE(Shape({2, 1}), Shape({2}));
  EXPECT_EQ(Shape().numel(), 1);
  std::ostringstream out;
  out << s << Shape();
  EXPECT_EQ(out.str(), "[2, 3, 5][]");
}

TEST(Shape, ErrorTexts) {
  EXPECT_EQ(error_of([] { Shape({2, 0}); }), "shape: every dimension must be at least 1, got [2, 0]");
  EXPECT_EQ(error_of([] { Shape({-1}); }), "shape: every dimension must be at least 1, got [-1]");
  EXPECT_EQ(error_of([] { Shape({1, 1, 1, 1, 1, 1, 1}); }), "shape: at most 6 dimensions, got 7");
  EXPECT_EQ(error_of([] { Shape({2, 3}).axis(2); }), "shape: no axis 2 in [2, 3]");
  EXPECT_EQ(error_of([] { Shape({2, 3}).axis(-3); }), "shape: no axis -3 in [2, 3]");
  EXPECT_EQ(error_of([] { Shape().axis(0); }), "shape: no axis 0 in []");
  EXPECT_EQ(error_of([] {
              Shape({2, 3}).with(1, 0);
            }),
            "shape: every dimension must be at least 1, got 0 for axis 1 of [2, 3]");
}

TEST(Error, NamesTheLayersThatAreRunning) {
  EXPECT_EQ(error_of([] {
              In block("blocks.", 1);
              In attn("attn");
              fail("matmul", "no ", 7);
            }),
            "blocks.1 > attn > matmul: no 7");
  EXPECT_EQ(error_of([] { fail("matmul", "no"); }), "matmul: no");  // the names left with their scope
}

TEST(Values, ErrorTexts) {
  const Tensor t({2, 3});
  EXPECT_EQ(error_of([] {
              Tensor::from({2, 2}, {1, 2, 3});
            }),
            "Tensor::from: shape [2, 2] has 4 elements, got 3 values");
  EXPECT_EQ(error_of([&] { t.item(); }), "item: needs exactly one element, the shape is [2, 3]");
  EXPECT_EQ(error_of([&] { t.at({1}); }), "at: got 1 indices for [2, 3]");
  EXPECT_EQ(error_of([&] { t.at({1, 3}); }), "at: index 3 is outside axis 1 of [2, 3]");
  EXPECT_EQ(error_of([&] { t.at({-1, 0}); }), "at: index -1 is outside axis 0 of [2, 3]");
  EXPECT_EQ(error_of([&] { t.transpose().flat(); }),
            "flat: needs a contiguous tensor, [3, 2] is a strided view; call contiguous() first");
  const std::string undefined = "tensor: undefined: it has no shape and no numbers";
  EXPECT_EQ(error_of([] { Tensor().flat(); }), undefined);
  EXPECT_EQ(error_of([] { Tensor().mut(); }), undefined);
  EXPECT_EQ(error_of([] { Tensor().clone(); }), undefined);
  EXPECT_EQ(error_of([] { Tensor().contiguous(); }), undefined);
  EXPECT_EQ(error_of([] { Tensor().at({}); }), undefined);
  EXPECT_EQ(error_of([] { Tensor().item(); }), "item: needs exactly one element, the shape is []");
}

TEST(Writing, NeedsContiguityAndRaisesTheVersionOfTheStorage) {
  Tensor t({2, 3}, 1);
  const Tensor row = t.select(0, 1), copy = t.clone();
  const uint64_t before = t.storage()->version(), copy_before = copy.storage()->version();
  t.mut()[4] = 7;
  EXPECT_EQ(t.storage()->version(), before + 1);
  EXPECT_EQ(row.storage()->version(), before + 1);  // a view sees the write, and its version
  EXPECT_EQ(row.at({1}), Real(7));
  EXPECT_EQ(copy.at({1, 1}), Real(1));
  EXPECT_EQ(copy.storage()->version(), copy_before);

  Tensor last_row = t.narrow(0, 1, 1);  // contiguous, so it can be written to: only its own elements
  EXPECT_EQ(last_row.mut().size(), 3u);
  last_row.mut()[0] = 9;
  EXPECT_EQ(elements(t), (std::vector<Real>{1, 1, 1, 9, 7, 1}));
  EXPECT_EQ(t.storage()->version(), before + 3);

  Tensor transposed = t.transpose(), column = t.narrow(1, 0, 1), repeated = Tensor({1}).expand({4});
  EXPECT_EQ(error_of([&] { transposed.mut(); }),
            "mut: needs a contiguous tensor, [3, 2] is a strided view; write to a clone()");
  EXPECT_EQ(error_of([&] { column.mut(); }),
            "mut: needs a contiguous tensor, [2, 1] is a strided view; write to a clone()");
  EXPECT_EQ(error_of([&] { repeated.mut(); }),
            "mut: needs a contiguous tensor, [4] is a strided view; write to a clone()");
  EXPECT_EQ(t.storage()->version(), before + 3);  // a refused write is none
}

TEST(Writing, UniqueMeansThatNobodyElseSeesTheNumbers) {
  Tensor t({2, 3});
  EXPECT_TRUE(t.unique());
  {
    const Tensor view = t.transpose();
    EXPECT_FALSE(t.unique());
    EXPECT_FALSE(view.unique());
  }
  EXPECT_TRUE(t.unique());
  EXPECT_TRUE(t.clone().unique());
  EXPECT_FALSE(Tensor().unique());
  EXPECT_FALSE(Tensor().defined());
}

TEST(Storage, IsAlignedToACacheLine) {
  for (int64_t n : {1, 3, 17, 1000, 4097}) EXPECT_EQ(reinterpret_cast<uintptr_t>(Tensor({n}).data()) % 64, 0u);
}

TEST(Storage, TheFreeListServesTheSecondAllocation) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the free list is off under the address sanitizer";
#endif
  const auto step = [] {  // sizes that nobody else here uses
    const Tensor a({1237, 89}), b({1237, 89}), c({613});
    return memory_stats().live_bytes;
  };
  const MemoryStats before = memory_stats();
  EXPECT_GE(step(), before.live_bytes + int64_t(sizeof(Real)) * (2 * 1237 * 89 + 613));
  EXPECT_EQ(memory_stats().live_bytes, before.live_bytes);
  const MemoryStats first = memory_stats();
  EXPECT_EQ(first.from_system, before.from_system + 3);
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(memory_stats().from_system, first.from_system);
  EXPECT_EQ(memory_stats().peak_bytes, first.peak_bytes);
  EXPECT_EQ(Tensor({1237, 88}).numel(), 1237 * 88);  // a nearby size shares the block
  EXPECT_EQ(memory_stats().from_system, first.from_system);
  release_free_memory();
  step();
  EXPECT_EQ(memory_stats().from_system, first.from_system + 3);
}

TEST(Print, ShortensLongAxes) {
  EXPECT_EQ(to_string(Tensor()), "(undefined)");
  EXPECT_EQ(to_string(Tensor({}, Real(2.5)), 2), "2.50");
  EXPECT_EQ(to_string(counting({2, 2}), 0), "[[0 1]\n [2 3]]");
  EXPECT_EQ(to_string(counting({9}), 0, 4), "[0 1 .. 7 8]");
  EXPECT_EQ(to_string(counting({9, 1}), 0, 2), "[[0]\n ..\n [8]]");
}
