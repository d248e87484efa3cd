// The README cannot be wrong: its C++ blocks stand here to the letter (ReadmeBlocksAreHere compares), are compiled, and are
// tested; its commands are run by ReadmeCommandsRun (tests/test_readme_commands.cpp).
#include <gtest/gtest.h>

#include <fstream>

#include "autograd/gradcheck.h"
#include "autograd/op_spec.h"
#include "autograd/ops.h"
#include "nn/layers.h"
#include "nn/optim.h"
#include "nn/transformer.h"
#include "tensor/kernels.h"

using namespace clearhead;

// clang-format off
namespace new_op {
// y = ln(1 + e^x), a smooth relu.   dy/dx = e^x / (1 + e^x) = sigmoid(x).   Saves x.
Var softplus(const Var& x) {
  const Tensor X = x.value();
  const Tensor y = map(X, [](Real v) { return std::max(v, Real(0)) + std::log1p(std::exp(-std::abs(v))); });
  return record("softplus", y, {x}, [X](const Tensor& dy, Adjoints& d) {
    d.add(0, [&] { return zip("softplus", dy, X, [](Real g, Real v) { return g / (1 + std::exp(-v)); }); });
  });
}
static const Register softplus_spec{{"softplus", [](auto& x) { return softplus(x[0]); }, {{{2, 3}}, {{}}, {{1}}}}};
}  // namespace new_op

namespace new_layer {
// A gated linear unit: (x W) * sigmoid(x V).   x [B, T, n] -> [B, T, m]
struct GatedLinear {
  Var W, V;  // [n, m]
  FIELDS(W, V)

  GatedLinear(int64_t n, int64_t m, Rng& rng)
      : W(normal_param({n, m}, 1 / std::sqrt(double(n)), rng)), V(normal_param({n, m}, 1 / std::sqrt(double(n)), rng)) {}

  Var operator()(const Var& x, Probe& probe) const {
    const In here("gated");                                    // errors and probes say "gated"
    const Var gate = probe("gate", sigmoid(matmul(x, V)));     // can be captured or replaced
    return matmul(x, W) * gate;
  }
};
}  // namespace new_layer

void first_steps() {
  Config config;                                               // two layers of attention, and nothing else
  Transformer model(config, /*seed=*/0);
  AdamW adam(params(model));
  for (int step = 0; step < 3; ++step) {
    Rng rng(0, Stream::data, uint64_t(step));                  // batch n is a function of (seed, n)
    Tokens sequences(8, 65);
    for (int32_t& id : sequences.ids) id = int32_t(rng.below(config.d_vocab));
    const Batch batch = next_token_batch(sequences);

    const Var loss = model.loss(batch.inputs, batch.targets);  // forward: ops record how to go back
    backward(loss);                                            // fills the gradients
    adam.step(1e-3);                                           // uses and clears them
  }
  Probe probe;
  probe.capture("blocks.*.attn.pattern");
  model.logits(Tokens(1, 16), probe);
  const Tensor& pattern = probe["blocks.1.attn.pattern"];      // [B, n_heads, T, T]: destination rows, source columns
  require(pattern.shape() == Shape{1, 4, 16, 16}, "first_steps", "unexpected pattern ", pattern.shape());
}
// clang-format on

namespace {

std::vector<std::string> blocks(const std::string& language) {
  std::ifstream in(CLEARHEAD_SOURCE_DIR "/README.md");
  std::vector<std::string> found;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      inside = line == "```" + language;
      if (inside) found.emplace_back();
    } else if (inside) {
      found.back() += line + "\n";
    }
  }
  return found;
}

TEST(Readme, CppBlocksAreCompiledHere) {
  std::ifstream in(__FILE__);
  const std::string here{std::istreambuf_iterator<char>(in), {}};
  const auto cpp = blocks("cpp");
  EXPECT_GE(cpp.size(), 3u);
  for (const std::string& block : cpp) EXPECT_NE(here.find(block), std::string::npos) << block;
}

TEST(Readme, FirstStepsRun) { first_steps(); }

TEST(Readme, NewOpIsDifferentiatedRight) {
  if (sizeof(Real) < 8) GTEST_SKIP() << "central differences need double";
  const auto spec = std::ranges::find(op_specs(), "softplus", &OpSpec::name);
  ASSERT_NE(spec, op_specs().end());
  Rng rng(1);
  for (const auto& shapes : spec->samples) {
    const auto r = gradcheck(spec->run, {random_normal(shapes[0], 2, rng)});
    EXPECT_LT(r.worst, 1e-7) << r.where;
  }
}

TEST(Readme, NewLayerListsItsFields) {
  Rng rng(1);
  new_layer::GatedLinear layer(3, 2, rng);
  Probe probe;
  probe.capture("gated.gate");
  const Var y = layer(Var(random_normal({1, 4, 3}, 1, rng)), probe);
  EXPECT_EQ(y.shape(), Shape({1, 4, 2}));
  EXPECT_EQ(audit(layer, sum(y)), "");
  EXPECT_EQ(probe["gated.gate"].shape(), y.shape());
}

}  // namespace
