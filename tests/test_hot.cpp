// The hot loops under the kernels, against the same in plain double precision.
#include "tensor/hot.h"

#include <array>

#include "tensor/kernels.h"
#include "tensor/random.h"
#include "tests/numbers.h"

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
