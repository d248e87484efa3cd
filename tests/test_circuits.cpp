// The algebra of circuits: factored matrices against dense ones, the paths against the model's own logits and scores,
// and a circuit written by hand, whose scores are known.
#include "nn/circuits/circuits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nn/circuits/handmade.h"
#include "nn/circuits/heads.h"
#include "nn/circuits/paths.h"
#include "nn/circuits/tables.h"
#include "nn/circuits/transform.h"
#include "nn/circuits/weights_file.h"
#include "nn/model_file.h"
#include "nn/transformer.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"
#include "tests/helpers.h"

using namespace clearhead;

namespace {

// In double the identities hold to rounding; in float to that of sums of a few hundred products.
const double bound = sizeof(Real) == 8 ? 1e-10 : 2e-4;

Tokens random_tokens(int64_t B, int64_t T, int64_t V, uint64_t seed) {
  Rng rng(seed);
  Tokens t(B, T);
  for (int32_t& id : t.ids) id = int32_t(rng.below(V));
  return t;
}

Factored random_factored(int64_t m, int64_t r, int64_t n, Rng& rng) {
  return {random_normal({m, r}, 1, rng), random_normal({r, n}, 1, rng)};
}

Head random_head(int64_t d, int64_t r, Rng& rng) {
  return {random_normal({d, r}, 1, rng), random_normal({d, r}, 1, rng), random_normal({d, r}, 1, rng),
          random_normal({r, d}, 1, rng)};
}

double frobenius(const Tensor& t) {
  double s = 0;
  const Tensor numbers = t.contiguous();
  for (Real x : numbers.flat()) s += double(x) * double(x);
  return std::sqrt(s);
}

struct Ran {
  Weights w;
  Tokens tokens;
  Patterns patterns;
  std::vector<Tensor> scores;
  Tensor logits, stream;
};

Ran run(const Transformer& model, const Tokens& tokens) {
  Probe probe;
  probe.capture("blocks.*.attn.*");
  probe.capture("blocks.*.resid_post");
  Ran r{weights_of(model), tokens, {}, {}, {}, {}};
  const NoGrad no_grad;
  r.logits = model.logits(tokens, probe).value();
  for (size_t l = 0; l < model.blocks.size(); ++l) {
    const std::string at = "blocks." + std::to_string(l);
    r.patterns.push_back(probe[at + ".attn.pattern"]);
    r.scores.push_back(probe[at + ".attn.scores"]);
    r.stream = probe[at + ".resid_post"];
  }
  return r;
}

Transformer some_model(int64_t layers, Positions positions = Positions::shortformer) {
  Config c;
  c.d_vocab = 11, c.d_model = 24, c.n_layers = layers, c.n_heads = 3, c.d_head = 5, c.n_ctx = 13;
  c.positions = positions;
  return Transformer(c, 3);
}

}  // namespace

TEST(Factored, IsTheDenseMatrix) {
  Rng rng(1);
  const Factored x = random_factored(9, 3, 7, rng), y = random_factored(7, 4, 8, rng),
                 z = random_factored(9, 2, 7, rng), square = random_factored(9, 3, 9, rng);
  EXPECT_LT(max_abs_diff((x * y).dense(), matmul(x.dense(), y.dense())), bound);
  EXPECT_EQ((x * y).rank(), 3);
  EXPECT_EQ((x.transpose() * z).rank(), 2);
  EXPECT_LT(max_abs_diff(x.transpose().dense(), x.dense().transpose()), bound);
  EXPECT_NEAR(x.norm(), frobenius(x.dense()), bound * x.norm());
  EXPECT_NEAR(dot(x, z), sum_all(mul(x.dense(), z.dense())), bound * x.norm() * z.norm());
  double trace = 0;
  for (int64_t i = 0; i < 9; ++i) trace += double(square.dense().at({i, i}));
  EXPECT_NEAR(square.trace(), trace, bound * square.norm());
  EXPECT_NEAR(norm(Sum{x, z}), frobenius(add(x.dense(), z.dense())), bound * x.norm());
  EXPECT_LT(max_abs_diff(joined({x, z}).dense(), add(x.dense(), z.dense())), bound);
}

TEST(Factored, EigenvaluesAndSingularValues) {
  Rng rng(2);
  const Factored x = random_factored(9, 3, 9, rng);
  const auto few = x.eigenvalues(), all = eigenvalues(x.dense());
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(std::abs(few[i]), std::abs(all[i]), 20 * bound);
  for (size_t i = 3; i < 9; ++i) EXPECT_LT(std::abs(all[i]), 1e-2);
  const Factored wide = random_factored(6, 2, 8, rng);
  const Svd s = wide.svd();
  Tensor US = s.U.clone();
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < 2; ++j) US.mut()[size_t(i * 2 + j)] *= Real(s.S[size_t(j)]);
  EXPECT_LT(max_abs_diff(matmul(US, s.Vh), wide.dense()), 10 * bound);
  EXPECT_GE(s.S[0], s.S[1]);
}

TEST(Factored, RefusesWhatDoesNotFit) {
  Rng rng(3);
  const Factored x = random_factored(4, 2, 5, rng);
  EXPECT_EQ(error_of([&] { x* x; }), "factored: product: inner dimensions differ, 5 and 4");
  EXPECT_EQ(error_of([&] { x.trace(); }), "factored: trace needs a square matrix, got [4, 5]");
  EXPECT_EQ(error_of([&] { x.eigenvalues(); }), "factored: eigenvalues needs a square matrix, got [4, 5]");
}

// Each against the dense matrix multiplied out by the definition, for a head pair where no two orders agree.
TEST(Composition, IsWhatTheSecondHeadSeesOfTheFirst) {
  Rng rng(4);
  const int64_t d = 12;
  const Head one = random_head(d, 3, rng), two = random_head(d, 4, rng);
  const auto product = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
  const Tensor OV1 = product(one.W_V, one.W_O), OV2 = product(two.W_V, two.W_O);
  const Tensor QK2 = scale(product(two.W_Q, two.W_K.transpose()), Real(1 / std::sqrt(4.)));
  const auto near = [&](Through through, const Tensor& dense, double others) {
    EXPECT_LT(max_abs_diff(composed(through, one, two).dense(), dense), 100 * bound) << name(through);
    EXPECT_NEAR(composition(through, one, two), frobenius(dense) / (frobenius(OV1) * others), 10 * bound);
  };
  near(Through::queries, product(OV1, QK2), frobenius(QK2));
  near(Through::keys, product(QK2, OV1.transpose()), frobenius(QK2));
  near(Through::values, product(OV1, OV2), frobenius(OV2));
  EXPECT_GT(max_abs_diff(product(OV2, OV1), product(OV1, OV2)), 1);  // so the order is tested
}

// Elhage et al. leave the null out; for random matrices of low rank it is 1 / sqrt(d_model).
TEST(Composition, NullIsOneOverRootD) {
  Rng rng(5);
  for (Through t : {Through::queries, Through::keys, Through::values}) {
    const Null null = composition_null(64, 16, 16, t, 60, rng);
    EXPECT_NEAR(null.mean, 0.125, 0.006);
    EXPECT_NEAR(null.sd, 0.006, 0.004);
  }
}

TEST(Copying, EigenvaluesSeeTheSign) {
  Rng rng(6);
  const Tensor E = random_normal({30, 8}, 1, rng);
  const Factored copies{E, E.transpose()}, opposes{scale(E, -1), E.transpose()};
  EXPECT_NEAR(copying_score(copies), 1, bound);
  EXPECT_NEAR(copying_score(opposes), -1, bound);
  const Copying c = copying(copies);
  EXPECT_EQ(c.own_is_first, copying(copies).own_is_first);
  EXPECT_GT(c.own_z, 1);
  EXPECT_LT(copying(opposes).own_z, -1);
  // Not a proof: mostly anticopying, with one large eigenvalue of the other sign.
  Tensor A({4, 4}), I({4, 4});
  for (int64_t i = 0; i < 4; ++i) A.mut()[size_t(5 * i)] = i ? Real(-1) : Real(10), I.mut()[size_t(5 * i)] = 1;
  EXPECT_GT(copying_score(Factored{A, I}), 0.5);
  EXPECT_EQ(copying(Factored{A, I}).own_is_first, 0.25);
}

TEST(Copying, NullOfRandomHeads) {
  Weights w = weights_of(some_model(1));
  Rng rng(7);
  const Null null = copying_null(w, 5, 200, rng);
  EXPECT_LT(std::abs(null.mean), 0.1);
  EXPECT_GT(null.sd, 0.1);
  w.W_U = w.W_E.transpose();  // tied embeddings: a random head copies no more, but the direct path does
  EXPECT_LT(std::abs(copying_null(w, 5, 200, rng).mean), 0.1);
  EXPECT_NEAR(copying_score(direct_path(w)), 1, 1e-5);
}

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

// Every weight random, also those that start as zeros and ones.
Transformer everything_random(Config c) {
  Transformer model(c, 5);
  Rng rng(15);
  for_each_param(model, [&](const std::string&, Var& v) {
    Tensor t = v.value();
    add_into(t, random_normal(t.shape(), 0.3, rng));
  });
  return model;
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
    const Transformer biased = everything_random(c);
    const Weights w = fold_biases(biased);
    EXPECT_EQ(w.d_model(), c.d_model + 1);
    EXPECT_LT(max_abs_diff(model_of(w).logits(tokens).value(), biased.logits(tokens).value()), 5 * bound);
    if (p == Positions::shortformer) continue;
    for (bool biases : {false, true}) {
      c.biases = biases, c.layer_norm = true;
      const Transformer normed = everything_random(c), folded = fold_layer_norm(normed);
      EXPECT_LT(max_abs_diff(log_softmax(folded.logits(tokens).value()), log_softmax(normed.logits(tokens).value())),
                5 * bound);
    }
  }
}

// O1, T1: direct + heads + virtual heads + ... = the logits.
TEST(Paths, AddUpToTheLogits) {
  for (Positions p : {Positions::shortformer, Positions::learned})
    for (int64_t layers : {0, 1, 2, 3}) {
      const Ran r = run(some_model(layers, p), random_tokens(2, 13, 11, 9));
      Tensor sum({2, 13, 24});
      int64_t paths = 0;
      for_each_path(r.w, r.patterns, r.tokens, layers,
                    [&](const Path&, const Tensor& x) { add_into(sum, x), ++paths; });
      EXPECT_EQ(paths, int64_t(std::pow(4, layers)));  // (1 + H)^layers
      EXPECT_LT(max_abs_diff(matmul(sum, r.w.W_U), r.logits), bound);
    }
}

TEST(Paths, ByOrderAreTheirSums) {
  const Ran r = run(some_model(3), random_tokens(2, 13, 11, 10));
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
  const Ran r = run(some_model(2), random_tokens(2, 13, 11, 11));
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
    const Ran r = run(some_model(3, p), random_tokens(2, 13, 11, 12));
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
  Ran r = run(some_model(2), random_tokens(2, 13, 11, 13));
  r.patterns[1] = r.patterns[1].narrow(0, 0, 1);
  EXPECT_EQ(error_of([&] { streams_by_order(r.w, r.patterns, r.tokens); }),
            "paths: the pattern of layer 1 is [1, 3, 13, 13], expected [2, 3, 13, 13]");
  r.patterns.pop_back();
  EXPECT_EQ(error_of([&] { streams_by_order(r.w, r.patterns, r.tokens); }),
            "paths: there are patterns of 1 layers, and 2 layers");
}

TEST(Tables, AreTheTopOfTheDenseOnes) {
  Rng rng(14);
  const Factored t = random_factored(300, 4, 17, rng);
  const Tensor dense = t.dense();
  const auto top = top_of_rows(t, {299, 0, 5}, 3);
  for (size_t i = 0; i < 3; ++i) {
    const int64_t row = std::vector<int64_t>{299, 0, 5}[i];
    std::vector<double> values;
    for (int64_t j = 0; j < 17; ++j) values.push_back(double(dense.at({row, j})));
    for (const Entry& e : top[i]) EXPECT_NEAR(e.value, values[size_t(e.token)], 1e-4);
    std::ranges::sort(values, std::greater());
    for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(top[i][k].value, values[k], 1e-4);
  }
  std::vector<double> p(300, 1. / 300);
  const Tensor columns = sum(centred_over_rows(t, p).dense(), 0);
  for (Real column : columns.flat()) EXPECT_NEAR(double(column), 0, 1e-2);
  EXPECT_EQ(error_of([&] { top_of_rows(t, {300}, 1); }), "tables: row 300 is outside 0..299");
}

// With a context of two tokens and no positions, the table is the model.
TEST(Tables, OfTheWholeModel) {
  const Transformer model = some_model(1, Positions::none);
  Tokens tokens(1, 2);
  tokens(0, 0) = 4, tokens(0, 1) = 9;
  const NoGrad no_grad;
  const Tensor expected = model.logits(tokens).value();
  const auto logits = skip_trigram_logits(weights_of(model), 4, 9, std::vector<double>(11, 1. / 11), 0);
  for (int64_t v = 0; v < 11; ++v) EXPECT_NEAR(logits[size_t(v)], double(expected.at({0, 1, v})), bound);
}

// What training must find, written down: every score is known.
TEST(Handmade, IsAnInductionCircuit) {
  const int64_t V = 11, T = 21;
  const Weights w = handmade_induction(V, T);
  const Transformer model = model_of(w);
  Tokens tokens(1, T);  // a start token, then an order of ten others, twice
  const std::vector<int32_t> order{3, 1, 4, 10, 5, 9, 2, 6, 8, 7};
  for (int64_t t = 1; t < T; ++t) tokens(0, t) = order[size_t((t - 1) % 10)];
  const Ran r = run(model, tokens);
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
