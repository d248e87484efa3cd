// The engine: which gradients arrive, in what order nodes run, and who owns what. The ops themselves are checked by
// test_gradcheck, what the graph frees and refuses by test_graph.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops.h"
#include "tensor/kernels.h"
#include "tests/helpers.h"

using namespace clearhead;

namespace {

Var scalar(double x) { return Var::param(Tensor({}, Real(x))); }
Var vector(const std::vector<double>& x) { return Var::param(Tensor::from({int64_t(x.size())}, x)); }
std::vector<Real> numbers(const Tensor& t) { return {t.flat().begin(), t.flat().end()}; }

// y = x, with a pullback that counts how often it runs.
Var counted(const Var& x, int& runs) {
  return record("counted", x.value().clone(), {x}, [&runs](const Tensor& dy, Adjoints& d) {
    ++runs;
    d.add(0, [&] { return dy; });
  });
}

TEST(Backward, Diamond) {
  const Var x = scalar(2), a = x * x, b = Real(3) * x;  // L = x^2 * 3x
  backward(a * b);
  EXPECT_EQ(x.grad().item(), 36);
}

TEST(Backward, ManyDiamondsInARowVisitEachNodeOnce) {
  const Var x = scalar(1);
  int runs = 0;
  Var y = x;
  for (int i = 0; i < 40; ++i) {  // 2^40 paths
    y = counted(y, runs);
    y = y + y;
  }
  backward(y);
  EXPECT_EQ(runs, 40);
  EXPECT_EQ(double(x.grad().item()), std::pow(2.0, 40));
}

// The older of two users of a value is made first, but must not pass the value's gradient on before the newer one has
// run.
TEST(Backward, AValueWaitsForAllOfItsUsers) {
  const Var x = scalar(1);
  int runs = 0;
  const Var shared = counted(x, runs), early = Real(2) * shared;
  Var late = shared;
  for (int i = 0; i < 10; ++i) late = Real(1) * late;
  backward(late + early);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(x.grad().item(), 3);
}

TEST(Backward, TheSameValueTwice) {
  const Var x = vector({1, 2, 3});
  backward(sum(x * x) + sum(x - x) + sum(x + x));
  EXPECT_EQ(numbers(x.grad()), (std::vector<Real>{4, 6, 8}));
}

TEST(Backward, DetachedValuesAreConstants) {
  const Var x = scalar(3), y = x * x;
  EXPECT_FALSE(y.detach().needs_grad());
  EXPECT_EQ(y.detach().value().storage(), y.value().storage());
  backward(y * y.detach());  // y c with c = 9
  EXPECT_EQ(x.grad().item(), 54);
}

TEST(Backward, GradientsOfTwoLossesAddUp) {
  const Var x = vector({1, 2});
  backward(sum(x * x));
  backward(sum(Real(10) * x));
  EXPECT_EQ(numbers(x.grad()), (std::vector<Real>{12, 14}));
  x.clear_grad();
  EXPECT_FALSE(x.grad().defined());
  backward(sum(x));
  EXPECT_EQ(numbers(x.grad()), (std::vector<Real>{1, 1}));
}

TEST(Backward, NothingIsComputedForConstants) {
  const Var x = scalar(2);
  bool asked = false;
  const Var y = record("custom", Tensor({}, 5), {x, Tensor({}, 1)}, [&](const Tensor& dy, Adjoints& d) {
    EXPECT_TRUE(d.needs(0));
    EXPECT_FALSE(d.needs(1));
    d.add(0, [&] { return dy; });
    d.add(1, [&] { return asked = true, dy; });
  });
  backward(y);
  EXPECT_FALSE(asked);
  EXPECT_EQ(x.grad().item(), 1);
  EXPECT_FALSE((Var(Tensor({}, 1)) * Var(Tensor({}, 1))).needs_grad());
}

TEST(Backward, WhereNoGradientArrivesNoPullbackRuns) {
  const Var x = scalar(2);
  int runs = 0;
  backward(record("stop", Tensor({}, 1), {counted(x, runs)}, [](const Tensor&, Adjoints&) {}));
  EXPECT_EQ(runs, 0);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Gradients, LeavesOwnTheirs) {
  const Var a = vector({1, 2}), b = vector({3, 4}), c = Var::param(Tensor({2, 2}, 1));
  backward(sum(a + b) + sum(transpose(c)));
  Tensor g = a.grad();
  for (Real& x : g.mut()) x *= 100;
  EXPECT_EQ(numbers(a.grad()), (std::vector<Real>{100, 100}));
  EXPECT_EQ(numbers(b.grad()), (std::vector<Real>{1, 1}));
  EXPECT_TRUE(c.grad().is_contiguous());
  EXPECT_EQ(numbers(c.grad()), (std::vector<Real>{1, 1, 1, 1}));
}

// add hands the same dy to u and v; then u receives more. What it adds may not appear in v.
TEST(Gradients, BorrowedOnesAreNotWrittenTo) {
  const Var a = vector({1, 2}), b = vector({3, 4});
  const Var u = Real(1) * a, v = Real(1) * b, early = sum(Real(7) * u);
  backward(early + sum(u + v));
  EXPECT_EQ(numbers(a.grad()), (std::vector<Real>{8, 8}));
  EXPECT_EQ(numbers(b.grad()), (std::vector<Real>{1, 1}));
}

TEST(Gradients, MustHaveTheShapeOfTheirValue) {
  const Var x = vector({1, 2, 3});
  const Var y =
      record("careless", Tensor({}, 1), {x}, [](const Tensor& dy, Adjoints& d) { d.add(0, [&] { return dy; }); });
  EXPECT_EQ(error_of([&] { backward(y); }),
            "backward: 'careless' returned a gradient of shape [] for a value of shape [3]");
}

}  // namespace
