// Layers and models over all of their options: no parameter is forgotten, names and counts are the published ones,
// copies share and clones do not, fused kernels equal their definitions, and every op has a spec.
#include <gtest/gtest.h>

#include <set>

#include "autograd/op_spec.h"
#include "nn/induction_head.h"
#include "nn/transformer.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {

Config tiny() {
  Config c;
  c.d_vocab = 7, c.d_model = 6, c.n_layers = 2, c.n_heads = 2, c.d_head = 3, c.n_ctx = 67;
  return c;
}

std::vector<Config> all_options() {
  std::vector<Config> list;
  for (const auto positions : {Positions::none, Positions::learned, Positions::sinusoidal, Positions::shortformer})
    for (int bits = 0; bits < 16; ++bits) {
      Config c = tiny();
      c.positions = positions, c.biases = bits & 1, c.layer_norm = bits & 2, c.d_mlp = bits & 4 ? 5 : 0,
      c.smeared_keys = bits & 8;
      list.push_back(c);
    }
  return list;
}

std::string describe(const Config& c) {
  return std::string(name(c.positions)) + (c.biases ? " biases" : "") + (c.layer_norm ? " layer_norm" : "") +
         (c.d_mlp ? " mlp" : "") + (c.smeared_keys ? " smeared_keys" : "");
}

Batch random_batch(const Config& c, int64_t B, int64_t T) {
  Rng rng(3, Stream::analysis);
  Tokens s(B, T + 1);
  for (int32_t& token : s.ids) token = int32_t(rng.below(c.d_vocab));
  Batch batch = next_token_batch(s);
  batch.targets(0, 0) = -1;
  return batch;
}

// Biases and LayerNorm start at 0 and 1, where mistakes could hide.
void randomize(Transformer& model) {
  Rng rng(9, Stream::analysis);
  for_each_param(model, [&](const std::string&, Var& p) {
    Tensor t = p.value();
    const Tensor noise = random_normal(t.shape(), 0.3, rng);
    add_into(t, noise);
  });
}

Transformer random_model(const Config& c, Kernel kernel) {
  Transformer model(c, 1);
  randomize(model);
  model.use(kernel);
  return model;
}

Var square(const Var& x) { return sum(x * x); }

TEST(Audit, EveryModelListsWhatItTrains) {
  for (const Config& c : all_options())
    for (const Kernel kernel : {Kernel::fused, Kernel::composed}) {
      Transformer model = random_model(c, kernel);
      const Batch batch = random_batch(c, 2, 5);
      EXPECT_EQ(audit(model, model.loss(batch.inputs, batch.targets)), "") << describe(c);
      EXPECT_EQ(audit(model, square(model.logits(batch.inputs))), "") << describe(c);
    }
}

TEST(Audit, EveryLayerListsWhatItTrains) {
  Config c = tiny();
  c.d_mlp = 5, c.positions = Positions::learned;
  Rng rng(1);
  const Var x = random_normal({2, 5, c.d_model}, 1, rng);
  Tokens tokens(2, 5);
  Probe none;
  for (const bool biases : {false, true}) {
    c.biases = biases;
    Linear linear(c.d_model, 4, rng, biases);
    EXPECT_EQ(audit(linear, square(linear(x))), "");
    Attention attention(c, rng);
    EXPECT_EQ(audit(attention, square(attention(x, x, none))), "");
    Unembedding unembed(c, rng);
    EXPECT_EQ(audit(unembed, square(unembed(x))), "");
    EXPECT_EQ(audit(unembed, unembed.loss(x, tokens, true)), "");
  }
  Embedding embed(c, rng);
  EXPECT_EQ(audit(embed, square(embed(tokens))), "");
  PosEmbedding pos(c, rng);
  EXPECT_EQ(audit(pos, square(pos(2, 5))), "");
  LayerNorm norm(c.d_model);
  EXPECT_EQ(audit(norm, square(norm(x))), "");
  for (const bool causal : {false, true}) {
    InductionHead head(c.d_model, 3, 2, rng, causal);
    EXPECT_EQ(audit(head, square(head(x, Real(2) * x, none))), "");
  }
  Mlp mlp(c, rng);
  EXPECT_EQ(audit(mlp, square(mlp(x, none))), "");
}

// Worked by hand: with s = sigmoid(0) = 1/2 a key is the mean of itself and the one before; in the next sequence, the
// first key has none before.
TEST(SmearedKeys, MixEachKeyWithTheOneBefore) {
  const Var k = Tensor::from({2, 3, 2}, {1, 10, 3, 20, 5, 40, 7, 50, 9, 70, 11, 80}),
            alpha = Tensor::from({2}, {0, 100});
  const Tensor expected = Tensor::from({2, 3, 2}, {1, 10, 2, 20, 4, 40, 7, 50, 8, 70, 10, 80});
  EXPECT_LT(max_abs_diff(smear_keys(k, alpha).value(), expected), 1e-5);
  EXPECT_THROW(smear_keys(k, Tensor({3})), Error);
}

// What feeds what: the first head reaches the result through the second head's keys alone, and sees x_qk; the second
// head's queries and values see x.
TEST(InductionHead, FirstHeadReachesKeysOnly) {
  Rng rng(5);
  InductionHead head(4, 3, 2, rng, /*mask=*/true, /*dropout=*/0.5);
  const Var x = random_normal({2, 5, 4}, 1, rng), moved = random_normal({2, 5, 4}, 1, rng);
  Probe none;
  const Tensor y = head(x, x, none).value();
  EXPECT_GT(max_abs_diff(head(x, moved, none).value(), y), 1e-4);
  Probe fixed;  // with its pattern fixed, nothing of the first head is left
  fixed.replace("induction_head.pattern2", [&](const std::string&, const Var&) {
    return Var(Tensor({2, 1, 5, 5}, Real(0.2)));
  });
  EXPECT_EQ(max_abs_diff(head(x, moved, fixed).value(), head(x, x, fixed).value()), 0);
  Rng drop(1);
  EXPECT_GT(max_abs_diff(head(x, x, none, &drop).value(), y), 1e-4);
}

// Without positions and without a mask, order means nothing: the last outputs after A B C A B and A C B A B are equal,
// whatever the weights. Either of the two tells them apart.
TEST(InductionHead, NeedsPositionsOrAMaskToKnowOrder) {
  Rng rng(6);
  const Var table = random_normal({3, 4}, 1, rng), pos = random_normal({2, 5, 4}, 1, rng);
  Tokens both(2, 5);
  both.ids = {0, 1, 2, 0, 1, 0, 2, 1, 0, 1};
  const Var x = embedding(table, both);
  const auto difference = [&](bool mask, bool positions) {
    InductionHead head(4, 3, 3, rng, mask);
    Probe none;
    const Tensor y = head(x, positions ? x + expand(narrow(pos, 0, 0, 1), {2, 5, 4}) : x, none).value().select(1, 4);
    return max_abs_diff(y.select(0, 0), y.select(0, 1));
  };
  EXPECT_LT(difference(false, false), 1e-6);
  EXPECT_GT(difference(true, false), 1e-3);
  EXPECT_GT(difference(false, true), 1e-3);
}

struct Forgetful {
  Var W = Var::param(Tensor({2}, 1)), b = Var::param(Tensor({3}, 1));
  FIELDS(W)
};
struct Hoarder {
  Var W = Var::param(Tensor({2}, 1)), unused = Var::param(Tensor({3}, 1)), constant = Tensor({4}, 1);
  FIELDS(W, unused, constant)
};
struct Stack {
  std::vector<Hoarder> layers;
  FIELDS(layers)
};

TEST(Audit, NamesWhatIsForgottenOrUnused) {
  Forgetful f;
  EXPECT_EQ(audit(f, square(f.W) + square(f.b)),
            "a parameter of shape [3]: the loss depends on it, but FIELDS does not list it\n");
  std::vector<Hoarder> many(2);
  Stack model{many};
  EXPECT_EQ(audit(model, square(many[0].W) + square(many[0].unused) + square(many[1].W) + square(many[1].constant)),
            "layers.1.unused: listed in FIELDS, but the loss does not depend on it\n");
}

TEST(Names, OfAModelWithEverythingOn) {
  Config c = tiny();
  c.positions = Positions::learned, c.biases = c.layer_norm = true, c.d_mlp = 5;
  Transformer model(c, 0);
  std::vector<std::string> names;
  int64_t counted = 0;
  for_each_param(model, [&](const std::string& n, Var& p) { names.push_back(n), counted += p.value().numel(); });
  std::vector<std::string> expected{"embed.W_E", "pos_embed.W_pos"};
  for (const std::string block : {"blocks.0.", "blocks.1."})
    for (const std::string field :
         {"ln1.w", "ln1.b", "attn.W_Q", "attn.W_K", "attn.W_V", "attn.W_O", "attn.b_Q", "attn.b_K", "attn.b_V",
          "attn.b_O", "ln2.w", "ln2.b", "mlp.W_in", "mlp.b_in", "mlp.W_out", "mlp.b_out"})
      expected.push_back(block + field);
  for (const std::string last : {"ln_final.w", "ln_final.b", "unembed.W_U", "unembed.b_U"}) expected.push_back(last);
  EXPECT_EQ(names, expected);
  const int64_t d = 6, heads = 6, block = 4 * d * heads + 3 * heads + d + 4 * d + 2 * d * 5 + 5 + d;
  EXPECT_EQ(counted, 7 * d + 67 * d + 2 * block + 2 * d + 7 * d + 7);
  EXPECT_EQ(count_params(model), counted);
  EXPECT_EQ(params(model).size(), expected.size());
}

TEST(Names, ConstantPositionsAreSavedButDoNotTrain) {
  Transformer model(tiny(), 0);
  bool listed = false;
  auto visit = [&](const std::string& n, Var&) { listed |= n == "pos_embed.W_pos"; };
  for_each_var("", model, visit);
  EXPECT_TRUE(listed);
  for_each_param(model, [&](const std::string& n, Var&) { EXPECT_NE(n, "pos_embed.W_pos"); });
}

TEST(Copies, ShareAndClonesDoNot) {
  for (const Config& c : all_options()) {
    Transformer model(c, 0), copy = model, own = clone(model);
    std::vector<Var> a, b, d;
    const auto into = [](std::vector<Var>& list) { return [&list](const std::string&, Var& v) { list.push_back(v); }; };
    auto visit_a = into(a), visit_b = into(b), visit_d = into(d);
    for_each_var("", model, visit_a), for_each_var("", copy, visit_b), for_each_var("", own, visit_d);
    ASSERT_TRUE(a.size() == b.size() && a.size() == d.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].node(), b[i].node());
      EXPECT_EQ(a[i].value().storage(), b[i].value().storage());
      EXPECT_NE(a[i].value().storage(), d[i].value().storage());
      EXPECT_EQ(a[i].needs_grad(), d[i].needs_grad());
      EXPECT_TRUE(!a[i].needs_grad() || a[i].node() != d[i].node());
      EXPECT_EQ(max_abs_diff(a[i].value(), d[i].value()), 0);
    }
  }
}

TEST(Seeds, GiveTheWeightsAndFloatsAreRoundedDoubles) {
  Transformer a(tiny(), 5), b(tiny(), 5), other(tiny(), 6);
  EXPECT_EQ(max_abs_diff(a.unembed.W_U.value(), b.unembed.W_U.value()), 0);
  EXPECT_NE(max_abs_diff(a.unembed.W_U.value(), other.unembed.W_U.value()), 0);
  const auto first = a.embed.W_E.value().flat(),
             last = a.unembed.W_U.value().flat();  // this test is built in both precisions
  EXPECT_NEAR(double(first[0]), 1.6954324, 1e-7);
  EXPECT_NEAR(double(last.back()), 0.15586336, 1e-7);
}

TEST(Completeness, EveryOpThatAModelRecordsHasASpec) {
  std::set<std::string> known{"param"}, used;
  for (const OpSpec& spec : op_specs()) known.insert(spec.name);
  for (Config c : all_options())
    for (const Kernel kernel : {Kernel::fused, Kernel::composed}) {
      c.dropout = 0.1;
      const Transformer model = random_model(c, kernel);
      const Batch batch = random_batch(c, 2, 5);
      Rng drop(1, Stream::dropout);
      const Var loss = model.loss(batch.inputs, batch.targets, &drop);
      for (const Node* n : reached(loss)) used.insert(n->op);
    }
  for (const std::string& op : used) EXPECT_TRUE(known.contains(op)) << op;
  for (const std::string op :
       {"attention_fused", "causal_softmax", "unembed_cross_entropy", "cross_entropy", "dropout", "layer_norm_fused"})
    EXPECT_TRUE(used.contains(op)) << op;
}

TEST(Fused, EqualsTheDefinitionInLossAndEveryGradient) {
  const double tolerance = sizeof(Real) == 8 ? 1e-12 : 2e-5;
  for (const Config& c : all_options()) {
    Transformer fused = random_model(c, Kernel::fused), composed = random_model(c, Kernel::composed);
    const Batch batch = random_batch(c, 3, 67);  // more than one block of destinations
    const Var a = fused.loss(batch.inputs, batch.targets), b = composed.loss(batch.inputs, batch.targets);
    EXPECT_NEAR(double(a.value().item()), double(b.value().item()), tolerance) << describe(c);
    backward(a), backward(b);
    const auto p = params(fused), q = params(composed);
    double largest = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      EXPECT_LT(max_abs_diff(p[i].grad(), q[i].grad()), tolerance) << describe(c) << ", parameter " << i;
      largest = std::max(largest, max_abs_diff(p[i].grad(), Tensor(p[i].shape())));
    }
    EXPECT_GT(largest, 0.01);
  }
}

}  // namespace
