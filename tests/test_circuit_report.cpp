// What the programs tell about circuits: knock-outs, classes of heads, importance and stories, on models whose answers
// are known.
#include "experiments/common/circuit_report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "experiments/common/ablation.h"
#include "experiments/common/tasks.h"
#include "nn/circuits/handmade.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"
#include "tests/circuit_models.h"

namespace {

Batch some_batch(int64_t V) { return next_token_batch(random_tokens(3, 13, V, 4)); }

TEST(KnockOut, OfNoHeadChangesNothingAndOfAllLeavesTheDirectPath) {
  const Transformer model = some_model(2);
  const Batch batch = some_batch(11);
  const Trace t = trace(model, batch.inputs);
  const double full = model.loss(batch.inputs, batch.targets).value().item();
  EXPECT_NEAR(loss_without(model, batch, {}), full, 1e-6);
  std::vector<HeadId> all;
  for (int64_t l = 0; l < 2; ++l)
    for (int64_t h = 0; h < 3; ++h) all.push_back({l, h});
  EXPECT_NEAR(loss_without(model, batch, all), loss_by_order(t, batch.targets)[0], 1e-5);
  EXPECT_GT(std::abs(loss_without(model, batch, all) - full), 0.1);
}

TEST(KnockOut, IsOfThatHeadAlone) {
  Transformer model = some_model(2);
  const Batch batch = some_batch(11);
  const double without = loss_without(model, batch, {{1, 2}});
  const int64_t width = model.config.d_head;  // the same by hand: its rows of W_O are zero
  for (int64_t row = 2 * width; row < 3 * width; ++row) {
    Tensor W_O = model.blocks[1].attn.W_O.value().clone();
    for (int64_t k = 0; k < model.config.d_model; ++k) W_O.mut()[size_t(row * model.config.d_model + k)] = 0;
    model.blocks[1].attn.W_O = Var::param(W_O);
  }
  EXPECT_NEAR(without, model.loss(batch.inputs, batch.targets).value().item(), 1e-6);
}

TEST(Ablation, FrozenPatternsLeaveOnlyTheOutputOut) {
  Transformer model = some_model(2);
  const Batch batch = next_token_batch(random_tokens(20, 13, 11, 4));  // more than one forward pass takes
  const Trace t = trace(model, batch.inputs);
  // By the path expansion: all paths but those through this head, with the patterns of the whole model.
  const std::vector<HeadId> heads{{0, 1}};
  Tensor sum({20, 12, model.config.d_model});
  for_each_path(t.w, t.patterns, t.tokens, 2, [&](const Path& path, const Tensor& x) {
    if (std::ranges::find(path, heads[0]) == path.end()) add_into(sum, x);
  });
  const double expected = loss_of(sum, t.w, batch.targets);
  EXPECT_NEAR(mean_loss(predict_without(model, batch, heads, Ablation::frozen), batch), expected, 1e-5);
  EXPECT_GT(std::abs(loss_without(model, batch, heads) - expected), 1e-4);
}

TEST(Ablation, MeansOfAHeadThatSaysOneThingChangeNothing) {
  const Transformer model = some_model(2);
  Tokens sevens(4, 12);  // all z of a head are the same, and so their mean
  std::ranges::fill(sevens.ids, 7);
  const Batch batch{sevens, sevens};
  const double full = mean_loss(predict(model, batch), batch);
  EXPECT_NEAR(mean_loss(predict_without(model, batch, {{1, 0}}, Ablation::mean), batch), full, 1e-5);
  EXPECT_GT(std::abs(loss_without(model, batch, {{1, 0}}) - full), 1e-3);
}

TEST(Ablation, MeansAreOverAllSequencesAndPositions) {
  Transformer model = some_model(2);
  const Batch batch = some_batch(11);
  const double without = mean_loss(predict_without(model, batch, {{1, 0}}, Ablation::mean), batch);
  Probe probe;  // the same by hand: of the first head, each number in turn is added up and divided
  probe.replace("blocks.1.attn.z", [&](const std::string&, const Var& z) {
    Tensor x = z.value().clone();
    const int64_t n = x.dim(0) * x.dim(1), width = x.dim(2);
    for (int64_t k = 0; k < model.config.d_head; ++k) {
      double total = 0;
      for (int64_t i = 0; i < n; ++i) total += double(x.data()[i * width + k]) / double(n);
      for (int64_t i = 0; i < n; ++i) x.mut()[size_t(i * width + k)] = Real(total);
    }
    return Var(x);
  });
  EXPECT_NEAR(without, mean_loss(predict(model, batch, probe), batch), 1e-5);
}

TEST(KnockOut, LossCountsOnlyPositionsWithATarget) {
  const Transformer model = some_model(2);
  Batch batch = some_batch(11);
  for (size_t i = 0; i < batch.targets.ids.size(); i += 2) batch.targets.ids[i] = -1;
  EXPECT_NEAR(loss_without(model, batch, {}), model.loss(batch.inputs, batch.targets).value().item(), 1e-5);
}

TEST(Classes, OfAHandmadeInductionModel) {
  Rng rng(1);
  const Trace t = trace(model_of(handmade_induction(12, 24)), repeated_random(4, 8, 3, 12, rng));
  const Classes c = classes_of(t);
  EXPECT_EQ(c.previous, (std::vector<HeadId>{{0, 0}}));
  EXPECT_EQ(c.induction, (std::vector<HeadId>{{1, 0}}));
  EXPECT_TRUE(c.others.empty());
  ASSERT_EQ(c.best_prefix.size(), 2u);
  EXPECT_GT(c.best_prefix[1], c.best_prefix[0] + 0.5);
}

TEST(Linear, OnlyWithFrozenPatterns) {
  for (Positions positions : {Positions::shortformer, Positions::none}) {
    const Linearity l = linearity(trace(some_model(2, positions), random_tokens(2, 9, 11, 3)));
    EXPECT_LT(l.frozen, 1e-5);
    EXPECT_GT(l.free, 1e-2);
  }
}

TEST(Story, AddsUpToTheLogit) {
  const Trace t = trace(some_model(2), random_tokens(2, 9, 11, 3));
  const auto terms = terms_of_prediction(t, 1, 8, 4, 2);
  EXPECT_EQ(terms.size(), 1u + 6 + 9);
  double sum = 0, mean = 0;
  for (const Term& term : terms) sum += term.raises;
  for (int64_t v = 0; v < 11; ++v) mean += double(t.logits.at({1, 8, v})) / 11;
  EXPECT_NEAR(sum, double(t.logits.at({1, 8, 4})) - mean, 1e-4);
  const std::string text = story(terms);
  EXPECT_NE(text.find("together"), std::string::npos);
  EXPECT_NE(text.find("..."), std::string::npos);
}

TEST(Importance, OfAOneLayerModelIsWhatItsHeadsDo) {
  const Trace t = trace(some_model(1), random_tokens(2, 13, 11, 3));
  const std::string text = importance_table(t, random_tokens(2, 13, 11, 5));
  EXPECT_NE(text.find("L0H2"), std::string::npos) << text;
  EXPECT_EQ(text.find("L1H0"), std::string::npos) << text;
}

TEST(Resting, CountsNewAndRepeatedTokensApart) {
  Tokens x(1, 4);
  x.ids = {5, 6, 5, 7};
  const Tensor pattern = Tensor::from({1, 4, 4}, {1, 0, 0, 0, .25, .75, 0, 0, .5, .5, 0, 0, .75, 0, 0, .25});
  EXPECT_NEAR(resting(pattern, x, false), 0.5, 1e-6);  // destinations 1 and 3
  EXPECT_NEAR(resting(pattern, x, true), 0.5, 1e-6);   // destination 2
  x.ids = {5, 6, 8, 7};
  EXPECT_TRUE(std::isnan(resting(pattern, x, true)));  // nothing is repeated
}

TEST(Specialists, OfAHandmadeCopierCopy) {
  Weights w = handmade_induction(12, 24);
  w.layers.erase(w.layers.begin());  // its second layer alone copies what it attends to
  Rng rng(2);
  const Specialists s = specialists_of(w, rng);
  EXPECT_GT(s.together.eigenvalues, 0.99);
  EXPECT_EQ(s.together.own_is_first, 1);
}

// The handmade model's second layer raises exactly what it attends to; its first writes where no logits are read.
TEST(RaisedCopying, OfAHandmadeInductionModel) {
  Tokens six(1, 24);
  for (int64_t i = 0; i < 24; ++i) six(0, i) = int32_t(i % 6);
  const Trace t = trace(model_of(handmade_induction(12, 24)), six);
  EXPECT_GT(raised_copying_scores(t, 1)[0], 0.5);
  EXPECT_EQ(raised_copying_scores(t, 0), (std::vector<double>{-1}));
}

// By definition, for one destination of one head.
TEST(RaisedCopying, IsTheShareOfTheMostAttendedToken) {
  const Transformer model = some_model(1);
  const Trace t = trace(model, random_tokens(1, 1, 11, 5));  // one token, which is all that can be attended to
  for (const double score : raised_copying_scores(t, 0)) EXPECT_TRUE(score == 1 || score == -1) << score;
  const Trace two = trace(model, random_tokens(1, 2, 11, 5));
  const Tensor out = moved(two.w.layers[0][1], two.patterns[0].select(1, 1).contiguous(), embedded(two.w, two.tokens));
  double share = 0, n = 0;
  for (int64_t i = 0; i < 2; ++i) {
    const Tensor row = matmul(out, two.w.W_U).select(1, i);
    const double mean = sum_all(row) / 11;
    const auto above = [&](int64_t j) { return std::max(0.0, double(row.at({0, two.tokens(0, j)})) - mean); };
    const double a0 = double(two.patterns[0].at({0, 1, i, 0}));
    if (above(0) + above(1) > 0) share += above(a0 >= 0.5 ? 0 : 1) / (above(0) + above(1)), ++n;
  }
  EXPECT_NEAR(raised_copying_scores(two, 0)[1], n > 0 ? 2 * share / n - 1 : -1, 1e-5);
}

}  // namespace
