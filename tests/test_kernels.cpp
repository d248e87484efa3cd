// Arithmetic, sums and softmax rows, against the same in plain double precision.
#include "tensor/kernels.h"

#include <cstring>
#include <functional>

#include "tensor/random.h"
#include "tests/helpers.h"
#include "tests/numbers.h"

namespace {

void expect_same_bits(const char* name, const std::function<Tensor()>& f) {
  const int threads = num_threads();
  set_num_threads(1);
  const Tensor one = f();
  for (int n : {2, 3}) {
    set_num_threads(n);
    const Tensor several = f();
    EXPECT_EQ(std::memcmp(one.data(), several.data(), size_t(one.numel()) * sizeof(Real)), 0)
        << name << ", " << n << " threads";
  }
  set_num_threads(threads);
}

}  // namespace

TEST(Elementwise, TakesAnyView) {
  Rng rng(0);
  const Tensor a = random_normal({3, 50, 7}, 1, rng).transpose(0, 1),
               b = random_normal({50, 1, 7}, 1, rng).expand({50, 3, 7});
  const std::vector<double> x = doubles(a), y = doubles(b);
  const Tensor plus = add(a, b), minus = sub(a, b), times = mul(a, b), ratio = div(a, b), scaled = scale(a, Real(1.5));
  for (const Tensor& t : {plus, minus, times, ratio, scaled}) {
    EXPECT_EQ(t.shape(), a.shape());
    EXPECT_TRUE(t.is_contiguous());
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const auto p = Real(x[i]), q = Real(y[i]);
    ASSERT_EQ(plus.flat()[i], p + q);
    ASSERT_EQ(minus.flat()[i], p - q);
    ASSERT_EQ(times.flat()[i], p * q);
    ASSERT_EQ(ratio.flat()[i], p / q);
    ASSERT_EQ(scaled.flat()[i], Real(1.5) * p);
  }
  EXPECT_EQ(doubles(a), x);  // the operands are as they were
  Tensor total = plus.clone();
  add_into(total, b);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(total.flat()[i], plus.flat()[i] + Real(y[i]));
  add_into(total, total);  // to itself
  ASSERT_EQ(total.flat()[3], 2 * (plus.flat()[3] + Real(y[3])));
  Tensor square = random_normal({5, 5}, 1, rng);
  const Tensor before = square.clone();
  add_into(square, square.transpose());  // to a view of itself
  EXPECT_EQ(square.at({1, 3}), before.at({1, 3}) + before.at({3, 1}));
  EXPECT_EQ(square.at({3, 1}), square.at({1, 3}));
  EXPECT_EQ(add(Tensor({}, 2), Tensor({}, 3)).item(), Real(5));
}

TEST(Elementwise, ErrorTexts) {
  EXPECT_EQ(error_of([] {
              add(Tensor({2, 3}), Tensor({3}));
            }),
            "add: shapes differ: a is [2, 3], b is [3] (use expand to repeat a dimension)");
  EXPECT_EQ(error_of([] {
              Tensor t({2, 3});
              add_into(t, Tensor({3, 2}));
            }),
            "add_into: shapes differ: [2, 3] += [3, 2]");
  EXPECT_EQ(error_of([] { add(Tensor(), Tensor()); }), "tensor: undefined: it has no shape and no numbers");
  EXPECT_EQ(error_of([] { sum_to(Tensor({3}), {2, 3}); }), "sum_to: cannot add dimensions: from [3] to [2, 3]");
  EXPECT_EQ(error_of([] { sum_to(Tensor({2, 3}), {2}); }), "sum_to: from [2, 3] to [2]");
  EXPECT_EQ(error_of([] { sum(Tensor({2, 3}), 2); }), "shape: no axis 2 in [2, 3]");
  EXPECT_EQ(error_of([] { softmax(Tensor({}, 1)); }), "shape: no axis -1 in []");
  EXPECT_EQ(error_of([] {
              causal_softmax(Tensor({4, 5}));
            }),
            "causal_softmax: needs square scores [.., T, T], got [4, 5]");
  EXPECT_EQ(error_of([] { pad(Tensor({2, 3}), {2, 4}, 1, 2); }), "pad: [2, 3] does not fit at 2 of axis 1 of [2, 4]");
}

TEST(Sum, EveryAxisOfAView) {
  Rng rng(1);
  for (const Tensor& x : {random_normal({5, 40, 3}, 1, rng), random_normal({3, 40, 5}, 1, rng).permute({2, 1, 0}),
                          random_normal({40, 1}, 1, rng).expand({5, 40, 3}), random_normal({1, 1, 1}, 1, rng)})
    for (int axis = 0; axis < 3; ++axis) {
      const Tensor y = sum(x, axis - 3 * (axis % 2));  // from either end
      ASSERT_EQ(y.rank(), 2);
      for (int64_t i = 0; i < y.dim(0); ++i)
        for (int64_t j = 0; j < y.dim(1); ++j) {
          double expected = 0;
          for (int64_t k = 0; k < x.dim(axis); ++k)
            expected += double(axis == 0 ? x.at({k, i, j}) : axis == 1 ? x.at({i, k, j}) : x.at({i, j, k}));
          ASSERT_NEAR(double(y.at({i, j})), expected, 100 * eps) << "axis " << axis;
        }
    }
  EXPECT_EQ(sum(Tensor({70000}, 1), 0).item(), Real(70000));
  EXPECT_EQ(sum(Tensor({3, 70000}, 1), 0).at({69999}), Real(3));
  EXPECT_EQ(sum_all(Tensor({3, 1}, 1).expand({3, 70000})), 210000.0);
}

TEST(Sum, SumToUndoesExpand) {
  Rng rng(2);
  const Tensor g = random_normal({4, 3, 5, 2}, 1, rng);
  for (const Shape& shape : {Shape{4, 3, 5, 2}, Shape{3, 5, 2}, Shape{3, 1, 2}, Shape{1, 1, 1, 1}, Shape{2}, Shape{1},
                             Shape{}, Shape{4, 1, 5, 1}, Shape{5, 1}}) {
    const Tensor s = sum_to(g, shape);
    ASSERT_EQ(s.shape(), shape);
    // <sum_to(g), x> = <g, expand(x)>: that is what the inverse (the adjoint) of expand means
    const Tensor x = random_normal(shape, 1, rng);
    EXPECT_NEAR(sum_all(mul(s, x)), sum_all(mul(g, x.expand(g.shape()))), 1000 * eps) << "to " << shape;
  }
}

TEST(Sum, PadUndoesNarrow) {
  Rng rng(3);
  const Tensor x = random_normal({3, 5, 4}, 1, rng);
  for (int axis = 0; axis < 3; ++axis) {
    const Tensor part = x.narrow(axis, 1, 2), back = pad(part, x.shape(), axis - 3, 1);
    EXPECT_EQ(doubles(back.narrow(axis, 1, 2)), doubles(part));
    EXPECT_NEAR(sum_all(back), sum_all(part), 100 * eps);
  }
}

TEST(Softmax, RowsOfAnySizeOfNumber) {
  Rng rng(4);
  for (int64_t n : {1, 2, 7, 8, 9, 33, 100})
    for (double size : {1e-3, 1.0, 30.0, 1e4, 1e30}) {
      const Tensor x = random_normal({5, n}, size, rng), p = softmax(x), log_p = log_softmax(x);
      for (int64_t r = 0; r < 5; ++r) {
        const std::vector<double> expected = softmax_of(x.data() + r * n, n);
        double total = 0;
        for (int64_t j = 0; j < n; ++j) {
          const double value = double(p.at({r, j}));
          total += value;
          ASSERT_NEAR(value, expected[size_t(j)], 8 * eps) << "n = " << n << ", size " << size;
          if (expected[size_t(j)] > 1e-30) {
            ASSERT_NEAR(double(log_p.at({r, j})), std::log(expected[size_t(j)]), 100 * eps * std::max(1., size));
          }
        }
        ASSERT_NEAR(total, 1, 16 * eps);
      }
    }
}

TEST(Softmax, ExtremeEntries) {
  const Tensor x = Tensor::from({5, 3}, {1e30, 0, -1e30,           //
                                         -1e30, -1e30, -1e30,      //
                                         -INFINITY, 2, -INFINITY,  //
                                         3e38, 3e38, -3e38,        //
                                         -INFINITY, -1e30, -1e30});
  expect_near(softmax(x), {1, 0, 0, 1. / 3, 1. / 3, 1. / 3, 0, 1, 0, .5, .5, 0, 0, .5, .5}, 2 * eps);
  EXPECT_EQ(softmax(x).at({0, 1}), Real(0));
  EXPECT_EQ(softmax(x).at({2, 0}), Real(0));
  EXPECT_EQ(log_softmax(x).at({2, 0}), -infinity);
  EXPECT_EQ(log_softmax(x).at({2, 1}), Real(0));
  EXPECT_NEAR(double(log_softmax(x).at({3, 0})), -std::log(2.), 1e32);  // 3e38 has no digit left for ln 2
}

TEST(Softmax, NothingHidesNan) {
  const std::vector<std::function<Tensor(const Tensor&)>> functions{softmax, log_softmax};
  for (const auto& f : functions)
    for (int64_t n : {1, 3, 16, 37})
      for (int64_t at = 0; at < n; ++at) {
        Tensor x({2, n}, -1);
        x.mut()[size_t(at)] = not_a_number;
        const Tensor y = f(x);
        for (int64_t j = 0; j < n; ++j) {
          ASSERT_TRUE(std::isnan(y.at({0, j}))) << "NaN at " << at << " of " << n << ", seen at " << j;
          ASSERT_FALSE(std::isnan(y.at({1, j})));  // and only in its own row
        }
        EXPECT_FALSE(all_finite(x));
        EXPECT_TRUE(std::isnan(sum_all(x)));
        EXPECT_TRUE(std::isnan(sum(x, 1).at({0})) && std::isnan(sum(x, 0).at({at})));
        EXPECT_EQ(max_abs_diff(x, x), std::numeric_limits<double>::infinity());
      }
  // no number is right for these rows either
  EXPECT_TRUE(std::isnan(softmax(Tensor({1, 3}, -infinity)).at({0, 1})));
  EXPECT_TRUE(std::isnan(softmax(Tensor::from({1, 2}, {INFINITY, 1})).at({0, 0})));
  EXPECT_TRUE(all_finite(Tensor({3}, huge)));
  EXPECT_FALSE(all_finite(Tensor({3}, infinity)));
}

TEST(CausalSoftmax, LaterColumnsAreExactlyZero) {
  Rng rng(5);
  for (int64_t T : {1, 2, 9, 40}) {
    Tensor scores = random_normal({2, 3, T, T}, 5, rng);
    for (int64_t i = 0; i + 1 < T; ++i)
      scores.mut()[size_t(i * T + i + 1)] = i % 2 ? not_a_number : infinity;  // unread
    const Tensor pattern = causal_softmax(scores);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < 3; ++h)
        for (int64_t i = 0; i < T; ++i) {
          const Real* const row = scores.data() + ((b * 3 + h) * T + i) * T;
          const std::vector<double> expected = softmax_of(row, i + 1);
          for (int64_t j = 0; j < T; ++j) {
            if (j > i) {
              ASSERT_EQ(pattern.at({b, h, i, j}), Real(0));
            } else {
              ASSERT_NEAR(double(pattern.at({b, h, i, j})), expected[size_t(j)], 8 * eps);
            }
          }
        }
  }
  Tensor scores({4, 4}, 0);
  scores.mut()[2 * 4 + 1] = not_a_number;
  EXPECT_TRUE(std::isnan(causal_softmax(scores).at({2, 0})));
  EXPECT_FALSE(std::isnan(causal_softmax(scores).at({3, 0})));
}

TEST(Kernels, SameBitsForAnyNumberOfThreads) {
  Rng rng(9);
  const Tensor a = random_normal({300, 401}, 1, rng), b = random_normal({300, 401}, 1, rng);
  const Tensor cube = random_normal({7, 150, 150}, 1, rng);
  expect_same_bits("add", [&] { return add(a, b.clone()); });
  expect_same_bits("div", [&] { return div(a, b); });
  expect_same_bits("add_into", [&] {
    Tensor t = a.clone();
    add_into(t, b);
    return t;
  });
  for (int axis = 0; axis < 3; ++axis) expect_same_bits("sum", [&] { return sum(cube, axis); });
  expect_same_bits("sum_to", [&] { return sum_to(cube, {150, 1}); });
  expect_same_bits("sum_all", [&] { return Tensor::from({}, {sum_all(cube)}); });
  expect_same_bits("softmax", [&] { return softmax(a.transpose()); });
  expect_same_bits("log_softmax", [&] { return log_softmax(a); });
  expect_same_bits("causal_softmax", [&] { return causal_softmax(cube); });
}
