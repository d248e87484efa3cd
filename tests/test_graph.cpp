// The recorded graph: what backward refuses, and with which words; when nothing is recorded; and that nodes and memory
// are freed, without a stack frame for each.
#include <gtest/gtest.h>

#include <sstream>

#include "autograd/ops.h"
#include "tensor/kernels.h"
#include "tests/helpers.h"

using namespace clearhead;

namespace {

Var scalar(double x) { return Var::param(Tensor({}, Real(x))); }
Var vector(const std::vector<double>& x) { return Var::param(Tensor::from({int64_t(x.size())}, x)); }

TEST(Refused, SecondBackward) {
  const Var x = scalar(2), y = exp(x), first = y * y, second = y + y;
  backward(first);
  const Real before = x.grad().item();
  EXPECT_EQ(
      error_of([&] { backward(first); }),
      "backward: 'mul' was already differentiated and has freed what it saved; run the forward pass again (or add the "
      "losses first and call backward once)");
  EXPECT_NE(error_of([&] { backward(second); }).find("'exp' was already differentiated"), std::string::npos);
  EXPECT_EQ(x.grad().item(), before);
}

TEST(Refused, WritingToAnInputAfterForward) {
  const Var w = vector({1, 2});
  const Var loss = sum(w * w);
  Tensor t = w.value();
  const auto version = t.storage()->version();
  t.mut()[0] = 5;
  std::ostringstream expected;
  expected << "backward: an input of 'mul' [2] was written to after the forward pass (version " << version + 1
           << ", was " << version << "); write to a clone, or after backward";
  EXPECT_EQ(error_of([&] { backward(loss); }), expected.str());
  EXPECT_FALSE(w.grad().defined());
}

TEST(Refused, WritingToAnOutputAfterForward) {
  const Var x = vector({1, 2}), y = exp(x);
  Tensor t = y.value();
  t.mut()[0] = 5;
  const Var used_later = sum(y);  // sees what was written; exp, which saved its output, does not
  EXPECT_NE(
      error_of([&] { backward(used_later); }).find("the output of 'exp' [2] was written to after the forward pass"),
      std::string::npos);
  const Var z = exp(scalar(1));  // and where no other op reads it
  t = z.value();
  t.mut()[0] = 5;
  EXPECT_NE(error_of([&] { backward(z); }).find("the output of 'exp' [] was written to"), std::string::npos);
}

TEST(Refused, WritingThroughAViewOrToAConstantInput) {
  const Var w = Var::param(Tensor({2, 3}, 1));
  Tensor constant({3, 2}, 1);
  const Var loss = sum(transpose(w) * Var(constant));
  constant.mut()[0] = 2;
  EXPECT_NE(error_of([&] { backward(loss); }).find("an input of 'mul'"), std::string::npos);
  const Var again = sum(narrow(w, 0, 0, 1));
  Tensor row = w.value().narrow(0, 1, 1);  // another row of the same storage: refused too, storages have one version
  row.mut()[0] = 2;
  EXPECT_NE(error_of([&] { backward(again); }).find("an input of 'sum'"), std::string::npos);
}

TEST(Refused, LossesThatAreNone) {
  const Var x = vector({1, 2});
  EXPECT_EQ(error_of([&] { backward(x + x); }), "backward: the loss must have one element, its shape is [2]");
  EXPECT_NE(error_of([&] { backward(Var()); }).find("the loss must have one element"), std::string::npos);
  const std::string no_parameter = "backward: the loss depends on no parameter (a NoGrad scope, or constants only?)";
  EXPECT_EQ(error_of([&] { backward(sum(x.detach())); }), no_parameter);
  const NoGrad no_grad;
  EXPECT_EQ(error_of([&] { backward(sum(x)); }), no_parameter);
}

TEST(NoGradScope, RecordsNothingAndEnds) {
  const Var x = scalar(2);
  const int64_t base = live_nodes();
  try {
    const NoGrad outer;
    const NoGrad inner;
    EXPECT_FALSE((x * x).needs_grad());
    EXPECT_EQ(live_nodes(), base);
    throw Error("leaves both scopes");
  } catch (const Error&) {
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE((x * x).needs_grad());
}

TEST(Nodes, AllAreFreed) {
  const int64_t base = live_nodes();
  {
    const Var x = vector({1, 2}), y = sum(exp(x) * x + tanh(x));
    EXPECT_EQ(live_nodes(), base + 6);
    backward(y);
    EXPECT_EQ(live_nodes(), base + 2);  // x, and the loss, which we hold
    sum(x * x);                         // dropped without backward
    EXPECT_EQ(live_nodes(), base + 2);
  }
  EXPECT_EQ(live_nodes(), base);
}

// Neither backward nor the destructor may need a stack frame per node.
TEST(Nodes, AChainOf200000) {
  const int64_t base = live_nodes();
  const Var x = scalar(1);
  const auto chain = [&] {
    Var y = x;
    for (int i = 0; i < 200'000; ++i) y = Real(1) * y;
    return y;
  };
  backward(chain());
  EXPECT_EQ(x.grad().item(), 1);
  EXPECT_EQ(live_nodes(), base + 1);
  chain();
  EXPECT_EQ(live_nodes(), base + 1);
}

TEST(Memory, IsFreedAsBackwardProceeds) {
  constexpr int64_t n = 1 << 16, layers = 50;
  const int64_t layer_bytes = n * int64_t(sizeof(Real)), start = memory_stats().live_bytes;
  const Var x = Var::param(Tensor({n}, Real(0.01)));
  int64_t at_the_end = 0;
  Var y = record("probe", x.value().clone(), {x}, [&](const Tensor& dy, Adjoints& d) {
    at_the_end = memory_stats().live_bytes - start;
    d.add(0, [&] { return dy; });
  });
  for (int i = 0; i < layers; ++i) y = tanh(y);  // each saves its output
  const Var loss = sum(y);
  y = Var();
  EXPECT_GT(memory_stats().live_bytes - start, layers * layer_bytes);
  const int64_t peak = memory_stats().peak_bytes;
  backward(loss);
  EXPECT_LT(memory_stats().peak_bytes - peak, 6 * layer_bytes);  // gradients of the interior do not pile up
  EXPECT_LT(at_the_end, 8 * layer_bytes);                        // x, its copy, and a few gradients
}

}  // namespace
