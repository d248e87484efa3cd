// Views are compared element by element with a model that has no strides: a plain list of numbers and a rule that says
// from where each element comes.
#include <gtest/gtest.h>

#include <functional>

#include "tensor/random.h"
#include "tests/elements.h"
#include "tests/helpers.h"

namespace {

// The model of a tensor: its shape and all of its elements in row-major order.
struct Model {
  Shape shape;
  std::vector<Real> values;

  explicit Model(const Tensor& contiguous) : shape(contiguous.shape()), values(elements(contiguous)) {}

  Real at(const Index& index) const {
    int64_t flat = 0;
    for (int axis = 0; axis < shape.rank(); ++axis) flat = flat * shape[axis] + index[size_t(axis)];
    return values[size_t(flat)];
  }
  // Element `index` of the new shape is element from(index) of the old one.
  void rearrange(const Shape& to, const std::function<Index(Index)>& from) {
    std::vector<Real> moved;
    for (const Index& index : indices(to)) moved.push_back(at(from(index)));
    shape = to;
    values = std::move(moved);
  }
};

void expect_equal(const Tensor& t, const Model& model) {
  ASSERT_EQ(t.shape(), model.shape);
  ASSERT_EQ(elements(t), model.values) << "shape " << t.shape();
  const Tensor copy = t.clone();
  ASSERT_TRUE(copy.is_contiguous());
  ASSERT_EQ(elements(copy), model.values) << "clone of shape " << t.shape();
}

Shape random_shape(Rng& rng) {
  Index dims;
  for (int64_t rank = rng.below(6); rank > 0; --rank) dims.push_back(1 + rng.below(3) * rng.below(3));
  return Shape(dims);
}

// One random view of t, applied to the model as well.
void random_view(Tensor& t, Model& model, Rng& rng) {
  const int rank = t.rank(), axis = rank ? int(rng.below(rank)) : 0;
  const int64_t choice = rng.below(5);
  if (choice == 0) {  // expand the axes of size 1, and a new one in front
    Index to(t.shape().begin(), t.shape().end());
    for (int64_t& d : to)
      if (d == 1 && rng.below(2)) d = 1 + rng.below(3);
    const bool leading = rank < Shape::max_rank && rng.below(2);
    if (leading) to.insert(to.begin(), 1 + rng.below(3));
    const Shape old = t.shape();
    t = t.expand(Shape(to));
    model.rearrange(Shape(to), [&](Index index) {
      if (leading) index.erase(index.begin());
      for (int i = 0; i < rank; ++i)
        if (old[i] == 1) index[size_t(i)] = 0;
      return index;
    });
  } else if (rank == 0) {
    return;
  } else if (choice == 1) {
    const int64_t start = rng.below(t.dim(axis)), length = 1 + rng.below(t.dim(axis) - start);
    t = t.narrow(axis - (rng.below(2) ? rank : 0), start, length);
    model.rearrange(model.shape.with(axis, length), [&](Index index) {
      index[size_t(axis)] += start;
      return index;
    });
  } else if (choice == 2 && t.numel() > t.dim(axis)) {
    const int64_t k = rng.below(t.dim(axis));
    t = t.select(axis, k);
    Index to(model.shape.begin(), model.shape.end());
    to.erase(to.begin() + axis);
    model.rearrange(Shape(to), [&](Index index) {
      index.insert(index.begin() + axis, k);
      return index;
    });
  } else if (choice == 3 && rank >= 2) {
    const int other = int(rng.below(rank));
    t = t.transpose(axis, other - (rng.below(2) ? rank : 0));
    const Shape to = model.shape.with(axis, model.shape[other]).with(other, model.shape[axis]);
    model.rearrange(to, [&](Index index) {
      std::swap(index[size_t(axis)], index[size_t(other)]);
      return index;
    });
  } else if (rank == 3) {
    t = t.permute({2, 0, -2});
    model.rearrange({model.shape[2], model.shape[0], model.shape[1]}, [](const Index& index) {
      return Index{index[1], index[2], index[0]};
    });
  }
}

// A random shape with as many elements: the prime factors of n in random groups, among some ones.
Shape random_factors(int64_t n, Rng& rng) {
  Index dims;
  while (n > 1) {
    int64_t d = 2;
    while (n % d != 0) ++d;
    dims.insert(dims.begin() + rng.below(int64_t(dims.size()) + 1), d);
    n /= d;
  }
  while (dims.size() > Shape::max_rank || (dims.size() > 1 && rng.below(2))) {
    const auto at = dims.begin() + rng.below(int64_t(dims.size()) - 1);
    at[1] *= at[0];
    dims.erase(at);
  }
  while (dims.size() < Shape::max_rank && rng.below(2))
    dims.insert(dims.begin() + rng.below(int64_t(dims.size()) + 1), 1);
  return Shape(dims);
}

// Do strides exist for `to` that reach t's elements in order? They would be the distances that index 1 of each axis is
// away.
bool view_exists(const Tensor& t, const Shape& to) {
  std::vector<int64_t> order;
  for (const Index& index : indices(t.shape())) order.push_back(address(t, index));
  const Strides unit = contiguous_strides(to);
  size_t n = 0;
  for (const Index& index : indices(to)) {
    int64_t expected = order[0];
    for (int axis = 0; axis < to.rank(); ++axis)
      if (index[size_t(axis)] > 0) expected += index[size_t(axis)] * (order[size_t(unit[size_t(axis)])] - order[0]);
    if (order[n++] != expected) return false;
  }
  return true;
}

}  // namespace

TEST(Views, OfASmallMatrix) {
  const Tensor t = counting({2, 3});  // 0 1 2 / 3 4 5
  EXPECT_EQ(elements(t.transpose()), (std::vector<Real>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(elements(t.narrow(1, 1, 2)), (std::vector<Real>{1, 2, 4, 5}));
  EXPECT_EQ(elements(t.select(0, 1)), (std::vector<Real>{3, 4, 5}));
  EXPECT_EQ(elements(t.select(-1, 1)), (std::vector<Real>{1, 4}));
  EXPECT_EQ(elements(t.select(0, 0).expand({2, 3})), (std::vector<Real>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(elements(t.reshape({3, -1})), (std::vector<Real>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(elements(t.transpose().reshape({-1})), (std::vector<Real>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(t.transpose().at({2, 1}), Real(5));
  EXPECT_EQ(t.select(0, 1).select(0, 2).item(), Real(5));
  EXPECT_EQ(t.permute({1, 0}).shape(), Shape({3, 2}));
  for (const Tensor& view : {t.transpose(), t.narrow(0, 1, 1), t.select(1, 2), t.expand({4, 2, 3}), t.reshape({6})})
    EXPECT_EQ(view.storage(), t.storage());
  EXPECT_TRUE(t.narrow(0, 1, 1).is_contiguous());
  EXPECT_FALSE(t.narrow(1, 1, 1).is_contiguous());
  EXPECT_FALSE(t.transpose().is_contiguous());
  EXPECT_TRUE(t.transpose().transpose().is_contiguous());
  EXPECT_EQ(t.contiguous().storage(), t.storage());
  EXPECT_NE(t.clone().storage(), t.storage());
}

TEST(Views, RandomChainsEqualTheModel) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Rng rng(seed, Stream::data);
    Tensor t = counting(random_shape(rng));
    Model model(t);
    const auto storage = t.storage();
    for (int steps = 0; steps < 5 && t.numel() < 2000; ++steps) {
      random_view(t, model, rng);
      ASSERT_NO_FATAL_FAILURE(expect_equal(t, model)) << "seed " << seed;
      ASSERT_EQ(t.storage(), storage) << "seed " << seed;
    }
    // reshape keeps the row-major order, and is a view exactly when strides for it exist
    for (int tries = 0; tries < 4; ++tries) {
      const Shape to = random_factors(t.numel(), rng);
      const Tensor reshaped = t.reshape(to);
      ASSERT_EQ(reshaped.shape(), to);
      ASSERT_EQ(elements(reshaped), model.values) << "seed " << seed << ": " << t.shape() << " to " << to;
      ASSERT_EQ(reshaped.storage() == storage, view_exists(t, to))
          << "seed " << seed << ": " << t.shape() << " to " << to;
    }
  }
}

TEST(Views, ReshapeMergesOnlyWhatIsEvenlySpaced) {
  const Tensor t = counting({2, 3, 4});
  const auto is_view = [](const Tensor& from, const Shape& to) {
    const Tensor view = from.reshape(to);
    EXPECT_EQ(elements(view), elements(from));
    return view.storage() == from.storage();
  };
  EXPECT_TRUE(is_view(t.narrow(0, 1, 1), {12}));
  EXPECT_TRUE(is_view(t.narrow(1, 1, 1), {2, 4}));
  EXPECT_FALSE(is_view(t.narrow(1, 1, 1), {8}));
  EXPECT_TRUE(is_view(t.narrow(1, 0, 2), {2, 2, 2, 2}));  // splits never need a copy
  EXPECT_FALSE(is_view(t.transpose(0, 1), {6, 4}));
  EXPECT_TRUE(is_view(t.permute({2, 0, 1}), {4, 6}));  // axes that stay neighbours
  EXPECT_TRUE(is_view(t.permute({2, 0, 1}), {2, 2, 1, 6, 1}));
  EXPECT_TRUE(is_view(counting({3, 1}).expand({5, 3, 4}), {5, 3, 2, 2}));
  EXPECT_FALSE(is_view(counting({3, 1}).expand({5, 3, 4}), {5, 12}));
  EXPECT_TRUE(is_view(counting({1, 1}).expand({3, 4}), {12}));     // one number, repeated twelve times
  EXPECT_TRUE(is_view(counting({2, 1, 3}).transpose(0, 1), {6}));  // an axis of size 1 has no say
  EXPECT_TRUE(is_view(counting({1}), {}));
  EXPECT_TRUE(is_view(counting({}), {1, 1, 1}));
}

TEST(Views, ErrorTexts) {
  const Tensor t({2, 3});
  EXPECT_EQ(error_of([&] { t.narrow(1, 2, 2); }), "narrow: [2, 4) is not inside axis 1 of [2, 3]");
  EXPECT_EQ(error_of([&] { t.narrow(1, -1, 2); }), "narrow: [-1, 1) is not inside axis 1 of [2, 3]");
  EXPECT_EQ(error_of([&] { t.narrow(-1, 0, 0); }), "narrow: [0, 0) is not inside axis 1 of [2, 3]");
  EXPECT_EQ(error_of([&] { t.select(0, 2); }), "narrow: [2, 3) is not inside axis 0 of [2, 3]");
  EXPECT_EQ(error_of([&] { t.transpose(0, 2); }), "shape: no axis 2 in [2, 3]");
  EXPECT_EQ(error_of([] { Tensor({3}).transpose(); }), "transpose: needs at least two dimensions, got [3]");
  EXPECT_EQ(error_of([&] { t.permute({0}); }), "permute: got 1 axes for [2, 3]");
  EXPECT_EQ(error_of([&] { t.permute({1, -1}); }), "permute: axis -1 appears twice, shape [2, 3]");
  EXPECT_EQ(error_of([&] { t.expand({3}); }), "expand: cannot drop dimensions: from [2, 3] to [3]");
  EXPECT_EQ(error_of([&] {
              t.expand({4, 3});
            }),
            "expand: only dimensions of size 1 can be repeated: from [2, 3] to [4, 3]");
  EXPECT_EQ(error_of([&] { t.reshape({4}); }), "reshape: [2, 3] has 6 elements, [4] has 4");
  EXPECT_EQ(error_of([&] { t.reshape({4, -1}); }), "reshape: [2, 3] has 6 elements, not a multiple of 4");
  EXPECT_EQ(error_of([&] { t.reshape({-1, -1}); }), "reshape: only one dimension can be -1");
  EXPECT_EQ(error_of([&] { t.reshape({0, -1}); }), "reshape: [2, 3] has 6 elements, not a multiple of 0");
  EXPECT_EQ(error_of([&] { t.reshape({-2, -3}); }), "shape: every dimension must be at least 1, got [-2, -3]");
}
