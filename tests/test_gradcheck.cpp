// Every op that registered a spec is checked here, without a line of its own: pullback against central differences (in
// double), the same input twice, non-contiguous inputs, and fused ops against their definitions.
#include <gtest/gtest.h>

#include <set>

#include "autograd/gradcheck.h"
#include "autograd/ops.h"
#include "tensor/kernels.h"
#include "tensor/random.h"

using namespace clearhead;

namespace {

constexpr double tolerance = 1e-7;

std::vector<Tensor> sample(const OpSpec& spec, const std::vector<Shape>& shapes) {
  Rng rng(7, Stream::analysis);
  std::vector<Tensor> inputs;
  for (const Shape& s : shapes) {
    Tensor t = random_normal(s, 1, rng);
    if (spec.positive)
      for (Real& x : t.mut()) x = Real(0.5 + 2 * rng.uniform());
    inputs.push_back(t);
  }
  return inputs;
}

class Op : public testing::TestWithParam<std::string> {
 protected:
  const OpSpec& spec() const { return *std::ranges::find(op_specs(), GetParam(), &OpSpec::name); }
};

class FusedOp : public Op {};

std::vector<std::string> names(bool fused_only = false) {
  std::vector<std::string> n;
  for (const OpSpec& s : op_specs())
    if (s.reference || !fused_only) n.push_back(s.name);
  return n;
}

TEST_P(Op, PullbackIsTheDerivative) {
  ASSERT_FALSE(spec().samples.empty());
  for (const auto& shapes : spec().samples) {
    const auto r = gradcheck(spec().run, sample(spec(), shapes));
    EXPECT_LT(r.worst, tolerance) << r.where;
  }
}

// The input also reaches the loss beside the op, and, where two inputs have equal shapes, through both of them.
TEST_P(Op, InputUsedTwice) {
  for (const auto& shapes : spec().samples) {
    const auto r = gradcheck(
        [&](const Inputs& x) {
          const Var y = spec().run(x), again = spec().run(x);
          return sum(y * again) + sum(x[0] * x[0]);
        },
        sample(spec(), shapes));
    EXPECT_LT(r.worst, tolerance) << r.where;
    if (shapes.size() < 2 || !(shapes[0] == shapes[1])) continue;
    const auto same = gradcheck([&](const Inputs& x) { return spec().run(Inputs(shapes.size(), x[0])); },
                                sample(spec(), {shapes[0]}));
    EXPECT_LT(same.worst, tolerance) << same.where;
  }
}

// Inputs that are transposed views (stored with their first two axes swapped), and inputs inside a larger tensor.
TEST_P(Op, NonContiguousInputs) {
  for (const auto& shapes : spec().samples) {
    std::vector<Tensor> stored;
    for (const Tensor& x : sample(spec(), shapes)) stored.push_back(x.rank() < 2 ? x : x.transpose(0, 1).clone());
    const auto through_views = [&](const Inputs& x) {
      Inputs views;
      for (const Var& v : x) views.push_back(v.shape().rank() < 2 ? v : transpose(v, 0, 1));
      return spec().run(views);
    };
    const auto r = gradcheck(through_views, stored);
    EXPECT_LT(r.worst, tolerance) << r.where;
    EXPECT_LT(max_abs_diff(through_views(Inputs(stored.begin(), stored.end())).value(),
                           spec()
                               .run([&] {
                                 const auto plain = sample(spec(), shapes);
                                 return Inputs(plain.begin(), plain.end());
                               }())
                               .value()),
              1e-12);

    stored.clear();
    for (const Tensor& x : sample(spec(), shapes))
      stored.push_back(x.rank() == 0 ? x : pad(x, x.shape().with(-1, x.dim(-1) + 3), -1, 2));
    const auto slices = gradcheck(
        [&](const Inputs& x) {
          Inputs views;
          for (const Var& v : x) views.push_back(v.shape().rank() == 0 ? v : narrow(v, -1, 2, v.dim(-1) - 3));
          return spec().run(views);
        },
        stored);
    EXPECT_LT(slices.worst, tolerance) << slices.where;
  }
}

TEST_P(FusedOp, EqualsItsDefinition) {
  for (const auto& shapes : spec().samples) {
    std::vector<Inputs> inputs(2);
    std::vector<Tensor> values;
    for (int which = 0; which < 2; ++which) {
      for (const Tensor& x : sample(spec(), shapes)) inputs[size_t(which)].push_back(Var::param(x.clone()));
      const Var y = (which == 0 ? spec().run : spec().reference)(inputs[size_t(which)]);
      Rng rng(3, Stream::analysis);
      backward(sum(y * Var(random_normal(y.shape(), 1, rng))));
      values.push_back(y.value());
    }
    EXPECT_LT(max_abs_diff(values[0], values[1]), 1e-12);
    for (size_t i = 0; i < shapes.size(); ++i)
      EXPECT_LT(max_abs_diff(inputs[0][i].grad(), inputs[1][i].grad()), 1e-11) << "input " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, Op, testing::ValuesIn(names()), [](const auto& spec) { return spec.param; });
INSTANTIATE_TEST_SUITE_P(Specs, FusedOp, testing::ValuesIn(names(true)), [](const auto& spec) { return spec.param; });

// A linker that dropped the ops' object files would leave nothing to test, and all would pass.
TEST(Specs, NoneIsMissingOrDouble) {
  EXPECT_GE(op_specs().size(), 25u);
  EXPECT_GE(names(true).size(), 4u);
  const auto all = names();
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
}

// The check itself must be able to fail.
TEST(Specs, AWrongPullbackIsCaught) {
  const auto wrong_exp = [](const Inputs& x) {
    const Tensor y = exp(x[0].detach()).value();
    return record("wrong_exp", y, {x[0]},
                  [y](const Tensor& dy, Adjoints& d) { d.add(0, [&] { return scale(mul(dy, y), 1.001); }); });
  };
  Rng rng(1);
  EXPECT_GT(gradcheck(wrong_exp, {random_normal({2, 3}, 1, rng)}).worst, 1e-4);
}

}  // namespace
