// What a model says when it cannot run: the layer, the op, the rule and the shapes, word for word.
#include <gtest/gtest.h>

#include "nn/transformer.h"
#include "tests/helpers.h"

using namespace clearhead;

namespace {

Config tiny() {
  Config c;
  c.d_vocab = 7, c.d_model = 6, c.n_layers = 2, c.n_heads = 2, c.d_head = 3, c.n_ctx = 67;
  return c;
}

TEST(Errors, NameTheLayer) {
  Transformer model(tiny(), 0);
  const Tokens tokens(2, 5);
  model.blocks[1].attn.W_Q = Var::param(Tensor({4, 3}, 1));
  EXPECT_EQ(error_of([&] { model.logits(tokens); }),
            "blocks.1 > attn > matmul: inner dimensions differ: a is [2, 5, 6], b is [4, 3]");
  EXPECT_TRUE(scope().empty());
  Config c = tiny();
  c.d_mlp = 5;
  Transformer with_mlp(c, 0);
  with_mlp.blocks[0].mlp->W_out = Var::param(Tensor({4, 6}, 1));
  EXPECT_EQ(error_of([&] { with_mlp.logits(tokens); }),
            "blocks.0 > mlp > matmul: inner dimensions differ: a is [2, 5, 5], b is [4, 6]");
}

TEST(Errors, OfTokensTargetsAndLengths) {
  const Transformer model(tiny(), 0);
  Tokens tokens(2, 5), targets(2, 5);
  tokens(1, 2) = 9;
  EXPECT_EQ(error_of([&] { model.logits(tokens); }), "embedding: token 9 at [1, 2] is outside the vocabulary 0..6");
  tokens(1, 2) = -1;
  EXPECT_EQ(error_of([&] { model.logits(tokens); }), "embedding: token -1 at [1, 2] is outside the vocabulary 0..6");
  targets(0, 3) = 7;
  for (const Kernel kernel : {Kernel::fused, Kernel::composed}) {
    const std::string op = kernel == Kernel::fused ? "unembed_cross_entropy" : "cross_entropy";
    Transformer m(tiny(), 0);
    m.use(kernel);
    EXPECT_EQ(error_of([&] { m.loss(Tokens(2, 5), targets); }),
              op + ": target 7 at [0, 3] is outside the vocabulary 0..6 (-1 leaves a position out)");
    EXPECT_EQ(error_of([&] { m.loss(Tokens(2, 5), Tokens(2, 4)); }),
              op + ": targets are [2, 4], x is [2, 5, " + (kernel == Kernel::fused ? "6]" : "7]"));
  }
  EXPECT_EQ(error_of([&] { model.logits(Tokens(1, 68)); }), "transformer: the sequences have 68 tokens, n_ctx is 67");
}

TEST(Errors, OfConfigsThatCannotBeBuilt) {
  const auto error = [](auto change) {
    Config c = tiny();
    change(c);
    return error_of([&] { Transformer(c, 0); });
  };
  EXPECT_EQ(error([](Config& c) { c.d_vocab = 0; }), "config: d_vocab must be at least 1, got 0");
  EXPECT_EQ(error([](Config& c) { c.d_model = -3; }), "config: d_model must be at least 1, got -3");
  EXPECT_EQ(error([](Config& c) { c.n_heads = 0; }), "config: n_heads must be at least 1, got 0");
  EXPECT_EQ(error([](Config& c) { c.n_layers = -1; }), "config: n_layers and d_mlp cannot be negative, got -1 and 0");
  EXPECT_EQ(error([](Config& c) { c.dropout = 1; }), "config: dropout must be in [0, 1), got 1");
  EXPECT_EQ(error([](Config& c) { c.n_layers = 0; }), "(no error)");
}

}  // namespace
