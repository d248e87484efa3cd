// Whole models: the paths against the model's own logits and scores, rewritings and files that keep it the same, and a
// circuit written by hand, whose scores are known.
#include "nn/circuits/paths.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nn/circuits/handmade.h"
#include "nn/circuits/heads.h"
#include "nn/circuits/trace.h"
#include "nn/circuits/transform.h"
#include "nn/circuits/weights_file.h"
#include "nn/model_file.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"
#include "tests/circuit_models.h"
#include "tests/helpers.h"

TEST(Weights, ThereAndBack) {
  for (Positions p : {Positions::shortformer, Positions::sinusoidal, Positions::learned, Positions::none}) {
    const Transformer model = some_model(2, p);
    const Tokens tokens = random_tokens(2, 9, 11, 8);
    const NoGrad no_grad;
    EXPECT_LT(max_abs_diff(model_of(weights_of(model)).logits(tokens).value(), model.logits(tokens).value()), 1e-12);
  }
}

TEST(Weights, SayWhatIsWrong) {
  Config c;
  c.layer_norm = true;
  EXPECT_NE(error_of([&] { weights_of(Transformer(c, 1)); }).find("circuits: the model has LayerNorm"),
            std::string::npos);
  c.layer_norm = false, c.biases = true;
  EXPECT_NE(error_of([&] { weights_of(Transformer(c, 1)); }).find("circuits: the model has biases"), std::string::npos);
  c.biases = false, c.d_mlp = 8;
  EXPECT_NE(error_of([&] { weights_of(Transformer(c, 1)); }).find("circuits: the model has an MLP"), std::string::npos);
  Weights w = weights_of(some_model(2));
  w.layers[1][2].W_O = w.layers[1][2].W_O.clone();
  w.layers[1][2].W_O.mut()[3] = std::numeric_limits<Real>::quiet_NaN();
  EXPECT_EQ(error_of([&] { check(w); }), "weights: blocks.1.attn.W_O of head 2 has a number that is not finite");
  w.layers[1][2].W_O = Tensor({5, 23});
  EXPECT_EQ(error_of([&] { check(w); }), "weights: blocks.1.attn.W_O of head 2 is [5, 23], expected [5, 24]");
}

// A3, A4.
TEST(Transform, BasesMeanNothing) {
  const Tokens tokens = random_tokens(2, 13, 11, 17);
  const NoGrad no_grad;
  for (Positions p : {Positions::shortformer, Positions::learned, Positions::none}) {
    const Transformer model = some_model(2, p);
    const Weights w = weights_of(model);
    Rng rng(18);
    const Tensor expected = model.logits(tokens).value(), O = random_orthogonal(24, rng);
    EXPECT_LT(max_abs_diff(matmul(O, O.transpose()), matmul(O.transpose(), O)), bound);
    EXPECT_LT(max_abs_diff(model_of(rotate_stream(w, O)).logits(tokens).value(), expected), 5 * bound);
    const Weights changed = change_heads(w, rng);
    EXPECT_LT(max_abs_diff(model_of(changed).logits(tokens).value(), expected), 5 * bound);
    EXPECT_GT(max_abs_diff(changed.layers[0][0].W_Q, w.layers[0][0].W_Q.contiguous()), 0.1);
    EXPECT_LT(max_abs_diff(qk(changed.layers[0][0]).dense(), qk(w.layers[0][0]).dense()), bound);
  }
}

// A6, A7.
TEST(Transform, FoldingKeepsTheModelTheSame) {
  const Tokens tokens = random_tokens(2, 13, 11, 16);
  const NoGrad no_grad;
  for (Positions p : {Positions::shortformer, Positions::learned, Positions::none}) {
    Config c = some_model(2, p).config;
    c.biases = true;
    const Transformer biased = noisy_model(c, 5, 0.3);
    const Weights w = fold_biases(biased);
    EXPECT_EQ(w.d_model(), c.d_model + 1);
    EXPECT_LT(max_abs_diff(model_of(w).logits(tokens).value(), biased.logits(tokens).value()), 5 * bound);
    if (p == Positions::shortformer) continue;
    for (bool biases : {false, true}) {
      c.biases = biases, c.layer_norm = true;
      const Transformer normed = noisy_model(c, 5, 0.3), folded = fold_layer_norm(normed);
      EXPECT_LT(max_abs_diff(log_softmax(folded.logits(tokens).value()), log_softmax(normed.logits(tokens).value())),
                5 * bound);
    }
  }
}

// A8.
TEST(Transform, BatchNormIsALinearMap) {
  Rng rng(20);
  const Tensor x = random_normal({7, 5}, 1, rng), W = random_normal({5, 6}, 1, rng);
  const BatchNorm norm{random_normal({6}, 1, rng), Tensor({6}, 2), random_normal({6}, 1, rng),
                       random_normal({6}, 1, rng)};
  const Tensor y = matmul(x, W), normed = norm(y);
  EXPECT_NEAR(double(normed.at({3, 4})),
              double((y.at({3, 4}) - norm.mean.at({4})) / 2 * norm.gain.at({4}) + norm.bias.at({4})), bound);
  EXPECT_LT(max_abs_diff(fold_batch_norm(W, norm)(x), normed), 10 * bound);
}

// O1, T1: direct + heads + virtual heads + ... = the logits.
TEST(Paths, AddUpToTheLogits) {
  for (Positions p : {Positions::shortformer, Positions::learned})
    for (int64_t layers : {0, 1, 2, 3}) {
      const Trace r = trace(some_model(layers, p), random_tokens(2, 13, 11, 9));
      Tensor sum({2, 13, 24});
      int64_t paths = 0;
      for_each_path(r.w, r.patterns, r.tokens, layers,
                    [&](const Path&, const Tensor& x) { add_into(sum, x), ++paths; });
      EXPECT_EQ(paths, int64_t(std::pow(4, layers)));  // (1 + H)^layers
      EXPECT_LT(max_abs_diff(matmul(sum, r.w.W_U), r.logits), bound);
    }
}

TEST(Paths, ByOrderAreTheirSums) {
  const Trace r = trace(some_model(3), random_tokens(2, 13, 11, 10));
  std::vector<Tensor> sums(4, Tensor({2, 13, 24}));
  for (Tensor& s : sums) s = s.clone();
  for_each_path(r.w, r.patterns, r.tokens, 3, [&](const Path& p, const Tensor& x) { add_into(sums[p.size()], x); });
  const std::vector<Tensor> streams = streams_by_order(r.w, r.patterns, r.tokens);
  ASSERT_EQ(streams.size(), 4);
  for (size_t k = 0; k < 4; ++k) EXPECT_LT(max_abs_diff(streams[k], sums[k]), bound) << "order " << k;
  // Without a head, its paths are missing, and only those.
  const HeadId left_out{1, 2};
  std::vector<Tensor> fewer(4);
  for (Tensor& s : fewer) s = Tensor({2, 13, 24});
  for_each_path(r.w, r.patterns, r.tokens, 3, [&](const Path& p, const Tensor& x) {
    if (std::ranges::find(p, left_out) == p.end()) add_into(fewer[p.size()], x);
  });
  const auto used = streams_by_order(r.w, r.patterns, r.tokens, [&](const HeadId& h) { return h != left_out; });
  for (size_t k = 0; k < 4; ++k) EXPECT_LT(max_abs_diff(used[k], fewer[k]), bound) << "order " << k;
}

// T7: a path through two heads is a virtual head, with pattern A2 A1 and OV1 OV2.
TEST(Paths, OfTwoHeadsAreVirtualHeads) {
  const Trace r = trace(some_model(2), random_tokens(2, 13, 11, 11));
  const Tensor x = embedded(r.w, r.tokens);
  int checked = 0;
  for_each_path(r.w, r.patterns, r.tokens, 2, [&](const Path& p, const Tensor& stream) {
    if (p.size() != 2) return;
    const Tensor A = virtual_pattern(r.patterns[0].select(1, p[0].head), r.patterns[1].select(1, p[1].head));
    const Factored OV = ov(r.w.layers[0][size_t(p[0].head)]) * ov(r.w.layers[1][size_t(p[1].head)]);
    EXPECT_LT(max_abs_diff(matmul(matmul(A, matmul(x, OV.A)), OV.B), stream), bound);
    const Tensor rows = sum(A, -1);
    for (Real row : rows.flat()) EXPECT_NEAR(double(row), 1, 1e-5);
    ++checked;
  });
  EXPECT_EQ(checked, 9);
}

// T2: four groups of terms add up to the scores, in the last layer and in those between.
TEST(Paths, OfScoresAddUp) {
  for (Positions p : {Positions::shortformer, Positions::sinusoidal, Positions::none}) {
    const Trace r = trace(some_model(3, p), random_tokens(2, 13, 11, 12));
    for (int64_t layer = 0; layer < 3; ++layer)
      for (int64_t head = 0; head < 3; ++head) {
        const ScoreParts s = score_parts(r.w, r.patterns, r.tokens, {layer, head});
        const Tensor sum = add(add(s.direct, s.queries), add(s.keys, s.both));
        EXPECT_LT(max_abs_diff(sum, r.scores[size_t(layer)].select(1, head).contiguous()), 10 * bound);
        if (layer == 0) {
          EXPECT_LT(max_abs_diff(s.direct, sum), 1e-12);
        }
      }
  }
}

TEST(Paths, RefuseOtherPatterns) {
  Trace r = trace(some_model(2), random_tokens(2, 13, 11, 13));
  r.patterns[1] = r.patterns[1].narrow(0, 0, 1);
  EXPECT_EQ(error_of([&] { streams_by_order(r.w, r.patterns, r.tokens); }),
            "paths: the pattern of layer 1 is [1, 3, 13, 13], expected [2, 3, 13, 13]");
  r.patterns.pop_back();
  EXPECT_EQ(error_of([&] { streams_by_order(r.w, r.patterns, r.tokens); }),
            "paths: there are patterns of 1 layers, and 2 layers");
}

// What training must find, written down: every score is known.
TEST(Handmade, IsAnInductionCircuit) {
  const int64_t V = 11, T = 21;
  const Weights w = handmade_induction(V, T);
  const Transformer model = model_of(w);
  Tokens tokens(1, T);  // a start token, then an order of ten others, twice
  const std::vector<int32_t> order{3, 1, 4, 10, 5, 9, 2, 6, 8, 7};
  for (int64_t t = 1; t < T; ++t) tokens(0, t) = order[size_t((t - 1) % 10)];
  const Trace r = trace(model, tokens);
  EXPECT_NEAR(previous_token_scores(r.patterns[0])[0], 1, 1e-4);
  EXPECT_NEAR(prefix_matching_scores(r.patterns[1], tokens)[0], 1, 1e-4);
  EXPECT_NEAR(duplicate_token_scores(r.patterns[1], tokens)[0], 0, 1e-4);
  for (int64_t t = 11; t + 1 < T; ++t) {
    int64_t best = 0;
    for (int64_t v = 0; v < V; ++v)
      if (r.logits.at({0, t, v}) > r.logits.at({0, t, best})) best = v;
    EXPECT_EQ(best, tokens(0, t + 1)) << t;
  }
  EXPECT_NEAR(copying_score(token_ov(w, w.layers[1][0])), 1, 1e-5);
  EXPECT_NEAR(copying_score(token_ov(w, w.layers[0][0])), 0, 1e-5);  // writes where nothing but keys reads
  // Layer 1 reads layer 0 through its keys, and through nothing else.
  const Head &previous = w.layers[0][0], &induction = w.layers[1][0];
  EXPECT_GT(composition(Through::keys, previous, induction), 0.3);  // 1 / sqrt(V): all of it, of rank V
  EXPECT_EQ(composition(Through::queries, previous, induction), 0);
  EXPECT_EQ(composition(Through::values, previous, induction), 0);
  EXPECT_NEAR(copying_score(matching(w, {1}, induction)), 1, 1e-5);  // it looks for its own token before the source
  const ScoreParts s = score_parts(w, r.patterns, tokens, {1, 0});
  EXPECT_LT(max_abs_diff(s.keys, r.scores[1].select(1, 0).contiguous()), 1e-3);
}

class WeightsFile : public InFolder {
 protected:
  // A file in TransformerLens's shape, changed by f, and what reading it says.
  std::string with(const std::function<void(TensorFile&)>& f) {
    save_model(path("model"), some_model(2, Positions::learned));
    TensorFile file = load_tensors(path("model"));
    file.metadata.clear();
    f(file);
    save_tensors(path("changed"), file);
    const std::string said = error_of([&] { load_weights(path("changed")); });
    return said.starts_with(path("changed") + " > ") ? said.substr(path("changed").size() + 3) : said;
  }
};

TEST_F(WeightsFile, AreTheModel) {
  const Tokens tokens = random_tokens(2, 13, 11, 19);
  const NoGrad no_grad;
  for (Positions p : {Positions::shortformer, Positions::learned, Positions::none}) {
    const Transformer model = some_model(3, p);
    save_model(path("model"), model);
    const Weights w = load_weights(path("model"));
    EXPECT_LT(max_abs_diff(model_of(w).logits(tokens).value(), model.logits(tokens).value()), 1e-12);
  }
  // As TransformerLens exports them: no metadata of ours, biases that are zero, and masks.
  EXPECT_EQ(with([](TensorFile& f) {
              f.tensors["blocks.0.attn.b_Q"] = Tensor({3, 5});
              f.tensors["unembed.b_U"] = Tensor({11});
              f.tensors["blocks.0.attn.mask"] = Tensor({13, 13}, 1);
              f.tensors["blocks.0.attn.IGNORE"] = Tensor({}, Real(-1e5));
            }),
            "(no error)");
}

TEST_F(WeightsFile, SayWhatIsWrong) {
  EXPECT_EQ(with([](TensorFile& f) { f.tensors.erase("unembed.W_U"); }), "weights: there is no unembed.W_U");
  EXPECT_EQ(with([](TensorFile& f) { f.tensors.erase("blocks.1.attn.W_O"); }),
            "weights: there is no blocks.1.attn.W_O");
  EXPECT_EQ(with([](TensorFile& f) { f.tensors["blocks.1.attn.b_O"] = Tensor({24}, 1); }),
            "weights: blocks.1.attn.b_O is not zero: fold biases first (circuits/transform.h)");
  EXPECT_EQ(with([](TensorFile& f) {
              f.tensors["blocks.0.mlp.W_in"] = Tensor({24, 96});
            }),
            "weights: blocks.0.mlp.W_in has no place in an attention-only model without LayerNorm");
  EXPECT_EQ(with([](TensorFile& f) { f.tensors["blocks.0.ln1.w"] = Tensor({24}, 1); }),
            "weights: blocks.0.ln1.w has no place in an attention-only model without LayerNorm");
  EXPECT_EQ(with([](TensorFile& f) {
              f.tensors["blocks.0.attn.W_K"] = f.tensors["blocks.0.attn.W_K"].transpose().contiguous();
            }),
            "weights: blocks.0.attn.W_K is [3, 5, 24], expected [3, 24, 5] (heads, d_model, d_head)");
  EXPECT_EQ(with([](TensorFile& f) {
              f.tensors["embed.W_E"] = f.tensors["embed.W_E"].clone();
              f.tensors["embed.W_E"].mut()[7] = std::numeric_limits<Real>::infinity();
            }),
            "weights: embed.W_E has a number that is not finite");
}
