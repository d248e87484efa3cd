// Optimizers against scalar references written from the formulas, step by step; clipping; the learning rate's schedule.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops.h"
#include "nn/optim.h"

using namespace clearhead;

namespace {

constexpr int64_t n = 1003;  // not a multiple of any vector width
const double tolerance = sizeof(Real) == 8 ? 1e-12 : 2e-6;

Tensor numbers(uint64_t index) {
  Rng rng(5, Stream::analysis, index);
  return random_normal({n}, 1, rng);
}

// Gives w the gradient g.
void set_gradient(const Var& w, const Tensor& g) { backward(sum(w * Var(g))); }

TEST(AdamW, EqualsItsFormulas) {
  const Tensor start = numbers(0);
  const AdamWOptions o{.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1};
  const Var w = Var::param(start.clone());
  AdamW adam({w}, o);
  std::vector<double> expected(start.flat().begin(), start.flat().end()), m(size_t(n), 0), v(size_t(n), 0);
  for (int t = 1; t <= 5; ++t) {
    const Tensor gradient = numbers(uint64_t(t));
    set_gradient(w, gradient);
    const double lr = 0.1 / t, factor = t % 2 ? 1 : 0.25;
    adam.step(lr, factor);
    EXPECT_EQ(adam.steps, t);
    EXPECT_FALSE(w.grad().defined());
    for (size_t i = 0; i < size_t(n); ++i) {
      const double g = factor * double(gradient.data()[i]);
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(o.beta1, t)), v_hat = v[i] / (1 - std::pow(o.beta2, t));
      expected[i] -= lr * (m_hat / (std::sqrt(v_hat) + o.eps) + o.weight_decay * expected[i]);
      ASSERT_NEAR(double(w.value().data()[i]), expected[i], tolerance) << "step " << t << ", weight " << i;
      ASSERT_NEAR(double(adam.m()[0].data()[i]), m[i], tolerance);
      ASSERT_NEAR(double(adam.v()[0].data()[i]), v[i], tolerance);
    }
  }
}

// The first step has length lr, whatever the gradient: that is what the bias correction is for.
TEST(AdamW, FirstStep) {
  const Var w = Var::param(Tensor({2}, 1));
  AdamW adam({w}, {.weight_decay = 0});
  set_gradient(w, Tensor::from({2}, {1e-3, -500}));
  adam.step(0.125);
  EXPECT_NEAR(double(w.value().at({0})), 0.875, 1e-5);
  EXPECT_NEAR(double(w.value().at({1})), 1.125, 1e-5);
}

TEST(AdamW, LeavesAloneWhatHasNoGradient) {
  const Var used = Var::param(Tensor({2}, 1)), unused = Var::param(Tensor({2}, 1));
  AdamW adam({used, unused});
  set_gradient(used, Tensor({2}, 1));
  adam.step(0.1);
  EXPECT_NE(used.value().at({0}), 1);
  EXPECT_EQ(unused.value().at({0}), 1);
}

TEST(Sgd, EqualsItsFormulas) {
  for (const double momentum : {0.0, 0.9}) {
    const Tensor start = numbers(0);
    const Var w = Var::param(start.clone());
    Sgd sgd({w}, momentum);
    std::vector<double> expected(start.flat().begin(), start.flat().end()), u(size_t(n), 0);
    for (int t = 1; t <= 4; ++t) {
      const Tensor gradient = numbers(uint64_t(t));
      set_gradient(w, gradient);
      sgd.step(0.1, 0.5);
      EXPECT_FALSE(w.grad().defined());
      for (size_t i = 0; i < size_t(n); ++i) {
        u[i] = momentum * u[i] + 0.5 * double(gradient.data()[i]);
        expected[i] -= 0.1 * u[i];
        ASSERT_NEAR(double(w.value().data()[i]), expected[i], tolerance);
      }
    }
  }
}

// A step writes to the weights: backward through a graph that was made before it must notice.
TEST(Optimizers, AStepIsSeenByAnOlderGraph) {
  const Var w = Var::param(Tensor({2}, 1));
  const Var old = sum(w * w);
  Sgd sgd({w});
  set_gradient(w, Tensor({2}, 1));
  sgd.step(0.1);
  EXPECT_THROW(backward(old), Error);
}

TEST(Clipping, ByTheGlobalNorm) {
  const Var a = Var::param(Tensor({2}, 1)), b = Var::param(Tensor({}, 1)), unreached = Var::param(Tensor({5}, 1));
  set_gradient(a, Tensor::from({2}, {2, -3}));
  backward(Real(6) * b);
  EXPECT_EQ(global_norm({a, b, unreached}), 7);  // 4 + 9 + 36
  EXPECT_EQ(clip_factor(7, 3.5), 0.5);
  EXPECT_EQ(clip_factor(3, 3.5), 1);
  EXPECT_EQ(clip_factor(7, 0), 1);
}

TEST(Schedule, WarmsUpThenStaysOrFalls) {
  const Schedule constant{.lr = 2, .warmup = 4};
  EXPECT_EQ(constant.at(0), 0.5);
  EXPECT_EQ(constant.at(3), 2);
  EXPECT_EQ(constant.at(4), 2);
  EXPECT_EQ(constant.at(1'000'000), 2);
  EXPECT_EQ((Schedule{.lr = 2}.at(0)), 2);
  const Schedule cosine{.lr = 2, .warmup = 10, .total = 110, .cosine = true};
  EXPECT_EQ(cosine.at(9), 2);
  EXPECT_EQ(cosine.at(10), 2);
  EXPECT_NEAR(cosine.at(35), 1 + std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(cosine.at(60), 1, 1e-12);
  EXPECT_NEAR(cosine.at(85), 1 - std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(cosine.at(110), 0, 1e-12);
  EXPECT_NEAR(cosine.at(500), 0, 1e-12);
  EXPECT_EQ((Schedule{.lr = 2, .warmup = 10, .total = 5, .cosine = true}.at(20)), 2);  // nothing left after the warm-up
}

}  // namespace
