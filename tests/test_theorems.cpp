// Identities that hold for every weight, checked in double on random ones: nothing flows backwards in time, the stream
// is the sum of what was added to it, heads add up, and looking changes nothing.
#include <gtest/gtest.h>

#include <cstring>

#include "nn/transformer.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {

constexpr int64_t B = 2, T = 67;  // more than one block of destinations in the fused kernel

Config config(Positions positions, int bits) {
  Config c;
  c.d_vocab = 11, c.d_model = 8, c.n_layers = 3, c.n_heads = 3, c.d_head = 4, c.n_ctx = T;
  c.positions = positions, c.biases = bits & 1, c.layer_norm = bits & 2, c.d_mlp = bits & 4 ? 7 : 0;
  return c;
}

std::vector<Config> all_options() {
  std::vector<Config> list;
  for (const auto positions : {Positions::none, Positions::learned, Positions::sinusoidal, Positions::shortformer})
    for (int bits = 0; bits < 8; ++bits) list.push_back(config(positions, bits));
  return list;
}

Transformer random_model(const Config& c, Kernel kernel = Kernel::fused) {
  Transformer model(c, 1);
  Rng rng(2, Stream::analysis);
  for_each_param(model, [&](const std::string&, Var& p) {  // biases too
    Tensor t = p.value();
    add_into(t, random_normal(t.shape(), 0.3, rng));
  });
  model.use(kernel);
  return model;
}

Tokens random_tokens(const Config& c, uint64_t seed = 0) {
  Rng rng(seed, Stream::analysis);
  Tokens tokens(B, c.n_ctx);
  for (int32_t& id : tokens.ids) id = int32_t(rng.below(c.d_vocab));
  return tokens;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.shape() == y.shape() && std::memcmp(x.data(), y.data(), size_t(x.numel()) * sizeof(Real)) == 0;
}

std::string layer(size_t l, const char* what) { return "blocks." + std::to_string(l) + "." + what; }

Tensor logits(const Transformer& model, const Tokens& tokens, Probe& probe) {
  return model.logits(tokens, probe).value();
}

const Probe::Replace same = [](const std::string&, const Var& x) { return x; };

TEST(Causality, ALaterTokenChangesNoEarlierLogit) {
  for (const Config& c : all_options())
    for (const Kernel kernel : {Kernel::fused, Kernel::composed}) {
      const Transformer model = random_model(c, kernel);
      Tokens tokens = random_tokens(c);
      const Tensor before = model.logits(tokens).value();
      for (const int64_t j : {1, 30, 64, 66}) {
        Tokens changed = tokens;
        for (int64_t b = 0; b < B; ++b) changed(b, j) = (tokens(b, j) + 1) % 11;
        const Tensor after = model.logits(changed).value();
        EXPECT_TRUE(same_bits(before.narrow(1, 0, j), after.narrow(1, 0, j))) << j;
        EXPECT_GT(max_abs_diff(before.narrow(1, j, 1), after.narrow(1, j, 1)), 1e-6);
        EXPECT_TRUE(j == T - 1 || max_abs_diff(before.narrow(1, T - 1, 1), after.narrow(1, T - 1, 1)) > 0);
      }
    }
}

// What head h adds to the stream: z_h W_O[h] (and b_O once per layer).
Tensor head_output(const Transformer& model, size_t l, int64_t h, const Tensor& z) {
  const int64_t d = model.config.d_head;
  return matmul(z.narrow(-1, h * d, d), model.blocks[l].attn.W_O.value().narrow(0, h * d, d));
}

TEST(ResidualStream, IsTheSumOfWhatWasAdded) {
  for (const Config& c : all_options()) {
    const Transformer model = random_model(c);
    Probe probe;
    probe.capture("*");
    const Tokens tokens = random_tokens(c);
    model.logits(tokens, probe);
    Tensor stream = embedding(model.embed.W_E, tokens).value();
    if (c.positions == Positions::learned || c.positions == Positions::sinusoidal)
      add_into(stream, (*model.pos_embed)(B, T).value());
    for (size_t l = 0; l < model.blocks.size(); ++l) {
      EXPECT_LT(max_abs_diff(stream, probe[layer(l, "resid_pre")]), 1e-10);
      Tensor heads(stream.shape());
      for (int64_t h = 0; h < c.n_heads; ++h) add_into(heads, head_output(model, l, h, probe[layer(l, "attn.z")]));
      if (c.biases) add_into(heads, model.blocks[l].attn.b_O->value().expand(heads.shape()));
      EXPECT_LT(max_abs_diff(heads, probe[layer(l, "attn.out")]), 1e-10);  // concatenate, then W_O = sum over the heads
      add_into(stream, heads);
      if (c.d_mlp) add_into(stream, probe[layer(l, "mlp.out")]);
      EXPECT_LT(max_abs_diff(stream, probe[layer(l, "resid_post")]), 1e-10);
    }
    if (c.layer_norm || c.biases) continue;
    EXPECT_LT(max_abs_diff(matmul(stream, model.unembed.W_U.value()), probe["logits"]), 1e-10);
  }
}

TEST(Patterns, AreDistributionsOverThePast) {
  const Transformer model = random_model(config(Positions::learned, 0));
  Probe probe;
  probe.capture("*.pattern");
  model.logits(random_tokens(model.config), probe);
  EXPECT_EQ(probe.captured().size(), 3u);
  for (const auto& [name, p] : probe.captured()) {
    ASSERT_EQ(p.shape(), (Shape{B, 3, T, T}));
    for (int64_t row = 0; row < B * 3 * T; ++row) {
      const Real* const p_row = p.data() + row * T;
      double total = 0;
      for (int64_t j = 0; j < T; ++j) {
        total += p_row[j];
        EXPECT_TRUE(j <= row % T ? p_row[j] >= 0 : p_row[j] == 0);
      }
      EXPECT_NEAR(total, 1, 1e-12);
    }
  }
}

// The captured pattern is the one that the fused kernel used, though it never stored it: z = A v.
TEST(Patterns, AreWhatTheFusedKernelUsed) {
  const Transformer model = random_model(config(Positions::shortformer, 1));
  const Tokens tokens = random_tokens(model.config);
  Probe fused, with_pattern;
  fused.capture("*.z"), fused.capture("*.v");
  with_pattern.capture("*.pattern");
  model.logits(tokens, fused), model.logits(tokens, with_pattern);
  for (size_t l = 0; l < 3; ++l)
    for (int64_t h = 0; h < 3; ++h) {
      const Tensor v = fused[layer(l, "attn.v")].narrow(-1, h * 4, 4).contiguous();
      const Tensor z = matmul(with_pattern[layer(l, "attn.pattern")].select(1, h).contiguous(), v);
      EXPECT_LT(max_abs_diff(z, fused[layer(l, "attn.z")].narrow(-1, h * 4, 4)), 1e-11);
    }
}

TEST(Probes, LookingChangesNothing) {
  for (const Config& c : {config(Positions::shortformer, 0), config(Positions::learned, 7)}) {
    const Transformer fused = random_model(c), composed = random_model(c, Kernel::composed);
    const Tokens tokens = random_tokens(c);
    const Tensor expected = fused.logits(tokens).value(), with_patterns = composed.logits(tokens).value();
    Probe elsewhere, all_but_pattern, everything, replaced;
    elsewhere.replace("blocks.7.*", [](const std::string&, const Var& x) { return scale(x, 0); });
    for (const char* name : {"embed", "*.resid_*", "*.q", "*.k", "*.v", "*.z", "*.out", "*.post", "logits"}) {
      all_but_pattern.capture(name);
      all_but_pattern.replace(name, same);
    }
    everything.capture("*");
    replaced.replace("*", same);
    EXPECT_TRUE(same_bits(logits(fused, tokens, elsewhere), expected));
    EXPECT_TRUE(same_bits(logits(fused, tokens, all_but_pattern), expected));
    EXPECT_TRUE(same_bits(logits(composed, tokens, everything), with_patterns));
    EXPECT_TRUE(
        same_bits(logits(fused, tokens, everything), with_patterns));  // who asks for patterns gets the definition
    EXPECT_TRUE(same_bits(logits(fused, tokens, replaced), with_patterns));
    EXPECT_TRUE(same_bits(everything["logits"], with_patterns));
    EXPECT_TRUE(same_bits(fused.logits(tokens).value(), expected));  // nothing was left behind
    const Tokens targets = random_tokens(c, 1);
    EXPECT_EQ(fused.loss(tokens, targets, all_but_pattern).value().item(), fused.loss(tokens, targets).value().item());
  }
}

TEST(Probes, AblatingALayerLeavesTheModelWithoutIt) {
  const Transformer model = random_model(config(Positions::shortformer, 0));
  const Tokens tokens = random_tokens(model.config);
  Probe probe;
  probe.replace("blocks.1.attn.z", [](const std::string&, const Var& z) { return scale(z, 0); });
  Transformer without = model;
  without.blocks.erase(without.blocks.begin() + 1);
  EXPECT_LT(max_abs_diff(logits(model, tokens, probe), without.logits(tokens).value()), 1e-10);
  EXPECT_GT(max_abs_diff(model.logits(tokens).value(), without.logits(tokens).value()), 0.01);
}

// Puts back the patterns of an earlier run.
void freeze(Probe& probe, const Probe& earlier) {
  probe.replace("*.pattern", [&earlier](const std::string& name, const Var&) { return Var(earlier[name]); });
}

TEST(Patterns, FrozenOnTheSameTokensGiveTheSameLogits) {
  for (const int bits : {0, 7}) {
    const Transformer model = random_model(config(Positions::shortformer, bits), Kernel::composed);
    const Tokens tokens = random_tokens(model.config);
    Probe earlier, frozen;
    earlier.capture("*.pattern");
    const Tensor expected = logits(model, tokens, earlier);
    freeze(frozen, earlier);
    EXPECT_TRUE(same_bits(logits(model, tokens, frozen), expected));
  }
}

// With frozen patterns an attention-only model is linear in its embedding (Elhage et al. 2021).
TEST(Patterns, FrozenMakeTheModelLinear) {
  Transformer model = random_model(config(Positions::shortformer, 0));
  const Tokens tokens = random_tokens(model.config), others = random_tokens(model.config, 5);
  Probe earlier, frozen;
  earlier.capture("*.pattern");
  model.logits(others, earlier);
  freeze(frozen, earlier);
  Rng rng(4, Stream::analysis);
  const Tensor a = random_normal({11, 8}, 1, rng), b = random_normal({11, 8}, 1, rng);
  const auto run = [&](const Tensor& W_E) {
    model.embed.W_E = Var::param(W_E);
    return logits(model, tokens, frozen);
  };
  EXPECT_LT(max_abs_diff(run(add(a, scale(b, -2))), add(run(a), scale(run(b), -2))), 1e-9);
}

}  // namespace
