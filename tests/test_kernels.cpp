// Arithmetic, sums, softmax rows and the hot loops under them, against the same in plain double precision.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "tensor/hot.h"
#include "tensor/kernels.h"
#include "tensor/random.h"
#include "tests/helpers.h"

using namespace clearhead;

namespace {

constexpr Real infinity = std::numeric_limits<Real>::infinity(), not_a_number = std::numeric_limits<Real>::quiet_NaN();
constexpr Real huge = Real(1e30);
constexpr double eps = double(std::numeric_limits<Real>::epsilon());

std::vector<double> doubles(const Tensor& t) {
  const Tensor in = t.contiguous();
  return {in.flat().begin(), in.flat().end()};
}

void expect_near(const Tensor& t, const std::vector<double>& expected, double bound) {
  ASSERT_EQ(size_t(t.numel()), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(double(t.flat()[i]), expected[i], bound) << "element " << i;
}

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

// softmax of one row in double
std::vector<double> softmax_of(const Real* x, int64_t n) {
  double max = x[0], sum = 0;
  for (int64_t i = 0; i < n; ++i) max = std::max(max, double(x[i]));
  std::vector<double> p;
  for (int64_t i = 0; i < n; ++i) sum += p.emplace_back(std::exp(double(x[i]) - max));
  for (double& v : p) v /= sum;
  return p;
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

// The loops, for every size of vectors that this machine has.
struct Hot : testing::TestWithParam<int> {
  void SetUp() override {
    if (!hot::use_vectors(GetParam())) GTEST_SKIP() << "this machine has no such vectors";
  }
  ~Hot() override { hot::use_vectors(64) || hot::use_vectors(32); }
};
INSTANTIATE_TEST_SUITE_P(VectorBytes, Hot, testing::Values(16, 32, 64), testing::PrintToStringParamName());

TEST_P(Hot, ExpIsAccurate) {
  std::vector<Real> x;
  for (int i = 0; i <= 400'000; ++i) x.push_back(Real(-87 + 175. * i / 400'000));
  for (double tiny = 1e-30; tiny < .1; tiny *= 1.7) x.insert(x.end(), {Real(tiny), Real(-tiny)});
  std::vector<Real> y = x;
  hot::exp_and_sum(y.data(), 0, int64_t(y.size()));
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(double(y[i]) / std::exp(double(x[i])) - 1));
  RecordProperty("relative_error_over_epsilon", std::to_string(worst / eps));
  EXPECT_LT(worst, 1.5 * eps);
}

TEST_P(Hot, ExpAtTheEdges) {
  for (int64_t n : {1, 8, 33}) {  // the vector loop and its remainder
    const auto exp = [n](Real value, Real shift = 0) {
      std::vector<Real> x(size_t(n), value);
      const Real sum = hot::exp_and_sum(x.data(), shift, n);
      for (Real v : x) EXPECT_TRUE(v == x[0] || std::isnan(v));
      EXPECT_TRUE(!std::isfinite(sum) || std::abs(sum / Real(n) - x[0]) <= Real(4 * eps) * x[0]);
      return x[0];
    };
    EXPECT_EQ(exp(0), Real(1));
    EXPECT_EQ(exp(-infinity), Real(0));
    EXPECT_EQ(exp(-huge), Real(0));
    EXPECT_EQ(exp(huge, huge), Real(1));
    EXPECT_EQ(exp(-huge, huge), Real(0));
    EXPECT_TRUE(std::isnan(exp(not_a_number)));
    EXPECT_TRUE(std::isnan(exp(1, not_a_number)));
    EXPECT_TRUE(std::isnan(exp(infinity, infinity)));
    EXPECT_EQ(exp(infinity), infinity);
    EXPECT_EQ(exp(huge), infinity);
    EXPECT_GT(exp(-87), Real(0));
    EXPECT_EQ(exp(Real(-87.01)) == 0, sizeof(Real) == 4);
  }
}

TEST_P(Hot, ReductionsOfEveryLength) {
  Rng rng(6);
  for (int64_t n = 1; n < 70; ++n) {
    const Tensor a = random_normal({n}, 1, rng), b = random_normal({n}, 1, rng);
    const Real *const x = a.data(), *const y = b.data();
    double sum = 0, dot = 0, squares = 0, max = double(x[0]), exps = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += double(x[i]);
      dot += double(x[i]) * double(y[i]);
      squares += double(x[i]) * double(x[i]);
      max = std::max(max, double(x[i]));
      exps += std::exp(double(x[i]));
    }
    const double bound = 4 * eps * double(n);
    EXPECT_NEAR(double(hot::sum(x, n)), sum, bound);
    EXPECT_NEAR(double(hot::dot(x, y, n)), dot, bound);
    EXPECT_NEAR(hot::sum_of_squares(x, n), squares, 1e-12);
    EXPECT_EQ(double(hot::max(x, n)), max);
    EXPECT_NEAR(double(hot::log_sum_exp(x, n)), std::log(exps), bound);
  }
}

TEST_P(Hot, PullbackOfSoftmax) {
  Rng rng(7);
  for (int64_t n : {1, 5, 16, 37})
    for (int64_t seen : {n, (n + 1) / 2}) {
      const Tensor scores = random_normal({n}, 2, rng), dp = random_normal({n}, 1, rng),
                   p = softmax(scores.narrow(0, 0, seen));
      const double d = double(hot::dot(p.data(), dp.data(), seen));
      std::vector<double> expected;
      for (size_t i = 0; i < size_t(seen); ++i) expected.push_back(double(p.flat()[i]) * (double(dp.flat()[i]) - d));
      Tensor in_place = dp.narrow(0, 0, seen).clone();
      hot::softmax_pullback(p.data(), in_place.data(), in_place.mut().data(), seen);
      expect_near(in_place, expected, 32 * eps);
    }
}

// Against softmax and its pullback, one destination at a time. What a destination does not see may be anything.
TEST_P(Hot, AttentionColumns) {
  Rng rng(7);
  constexpr int64_t n = hot::panel;
  for (int64_t first : {int64_t(0), n, 3 * n}) {
    const Tensor scores = random_normal({first + n, n}, 2, rng), dp = random_normal({first + n, n}, 1, rng);
    Tensor s = scores.clone(), ds = dp.clone(), most({n}), inverse({n}), d({n});
    for (int64_t j = first; j < first + n; ++j)
      for (int64_t i = 0; i < j - first; ++i)
        s.mut()[size_t(j * n + i)] = infinity, ds.mut()[size_t(j * n + i)] = not_a_number;
    const Tensor unseen = s.clone();
    const Real scale = Real(.25);
    hot::attention_columns(s.mut().data(), first, most.mut().data(), inverse.mut().data());
    for (int64_t i = 0; i < n; ++i) {
      const int64_t seen = first + i + 1;
      const auto column = [&](const Tensor& t) {
        return t.narrow(0, 0, seen).narrow(1, i, 1).contiguous().reshape({seen});
      };
      const Tensor p = softmax(column(scores));
      const Tensor mine = column(s);
      for (int64_t j = 0; j < seen; ++j) EXPECT_NEAR(mine.at({j}) * inverse.at({i}), double(p.at({j})), 16 * eps);
      for (int64_t j = seen; j < first + n; ++j) EXPECT_EQ(s.at({j, i}), Real(0));
      d.mut()[size_t(i)] = hot::dot(p.data(), column(dp).data(), seen);
    }
    s = unseen.clone();
    hot::attention_columns_pullback(s.mut().data(), ds.mut().data(), first, most.data(), inverse.data(), scale);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < first + n; ++j) {
        const bool sees = j <= first + i;
        const double p = sees ? std::exp(double(scores.at({j, i}) - most.at({i}))) * double(inverse.at({i})) : 0;
        EXPECT_NEAR(double(s.at({j, i})), p, 16 * eps);
        EXPECT_NEAR(double(ds.at({j, i})), sees ? p * double(dp.at({j, i}) - d.at({i})) * double(scale) : 0, 32 * eps);
      }
  }
}

TEST_P(Hot, AdamFollowsItsFormula) {
  Rng rng(8);
  for (int64_t n : {1, 7, 100}) {
    Tensor w = random_normal({n}, 1, rng), m({n}), v({n});
    std::vector<double> W = doubles(w), M(size_t(n), 0), V(size_t(n), 0);
    const double lr = 0.01, beta1 = 0.9, beta2 = 0.99, adam_eps = 1e-8, decay = 0.1, grad_scale = 0.5;
    for (int t = 1; t <= 20; ++t) {
      const Tensor g = random_normal({n}, 1, rng);
      const double c1 = 1 / (1 - std::pow(beta1, t)), c2 = 1 / (1 - std::pow(beta2, t));
      hot::adam({Real(lr), Real(beta1), Real(beta2), Real(adam_eps), Real(decay), Real(c1), Real(c2)}, g.data(),
                Real(grad_scale), m.mut().data(), v.mut().data(), w.mut().data(), n);
      for (size_t i = 0; i < size_t(n); ++i) {
        const double grad = double(g.flat()[i]) * grad_scale;
        M[i] = beta1 * M[i] + (1 - beta1) * grad;
        V[i] = beta2 * V[i] + (1 - beta2) * grad * grad;
        W[i] = W[i] - lr * decay * W[i] - lr * (M[i] * c1) / (std::sqrt(V[i] * c2) + adam_eps);
      }
    }
    expect_near(m, M, 32 * eps);
    expect_near(v, V, 32 * eps);
    expect_near(w, W, 64 * eps);
  }
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
