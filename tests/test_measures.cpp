// Measures on curves, predictions and batches small enough to work out by hand; findings and their JSON.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "experiments/common/curves.h"
#include "experiments/common/findings.h"
#include "experiments/common/measures.h"
#include "experiments/common/repeated_text.h"
#include "experiments/common/snapshots.h"
#include "experiments/common/tasks.h"
#include "nn/circuits/handmade.h"

using namespace clearhead;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Curve curve_of(int64_t every, const std::vector<double>& y, const std::string& key = "y") {
  Curve curve;
  for (double v : y) curve.push_back({{"step", int64_t(curve.size()) * every}, {key, v}});
  return curve;
}

TEST(Rise, OfARampIsInterpolated) {
  std::vector<double> up, down;
  for (int step = 0; step <= 1000; step += 40) {  // a ramp between steps 200 and 400
    up.push_back(5 + 2 * std::clamp((step - 200) / 200.0, 0.0, 1.0));
    down.push_back(-3 * up.back());
  }
  for (const Rise& r : {rise(curve_of(40, up), "y"), rise(curve_of(40, down), "y")}) {
    EXPECT_NEAR(r.t10, 220, 1e-9);
    EXPECT_NEAR(r.t50, 300, 1e-9);
    EXPECT_NEAR(r.t90, 380, 1e-9);
  }
}

TEST(Rise, TakesTheFirstCrossingAndAPlateauOfATenth) {
  std::vector<double> y(20, 4.0);
  y[0] = 0, y[1] = 4, y[2] = 0, y[18] = 3, y[19] = 5;  // plateau: the mean of the last two
  EXPECT_NEAR(rise(curve_of(10, y), "y").t50, 5, 1e-9);
}

TEST(Rise, OfAFlatCurveIsNaN) {
  const Rise r = rise(curve_of(10, {2, 2, 2, 2}), "y");
  EXPECT_TRUE(std::isnan(r.t10) && std::isnan(r.t50) && std::isnan(r.t90));
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  Curve curve = curve_of(1, a, "a");
  for (size_t i = 0; i < b.size(); ++i) curve[i]["b"] = b[i];
  return rank_correlation(curve, "a", "b");
}

TEST(RankCorrelation, SeesOrderOnly) {
  EXPECT_NEAR(spearman({1, 2, 3, 4}, {1, 10, 100, 1000}), 1, 1e-12);
  EXPECT_NEAR(spearman({1, 2, 3, 4}, {5, 4, 2, -7}), -1, 1e-12);
  EXPECT_NEAR(spearman({1, 2, 3, 4, 5}, {2, 1, 4, 3, 5}), 0.8, 1e-12);                 // 1 - 6 * 4 / (5 * 24)
  EXPECT_NEAR(spearman({1, 2, 2, 3}, {1, 2, 3, 4}), 4.5 / std::sqrt(4.5 * 5), 1e-12);  // ties share their mean rank
  EXPECT_TRUE(std::isnan(spearman({1, 1, 1}, {1, 2, 3})));
}

// A measure may be undefined at some step; in a resumed run it has become the null of a JSON file.
TEST(RankCorrelation, OfUndefinedValuesIsUndefined) {
  EXPECT_TRUE(std::isnan(spearman({1, nan, 3}, {1, 2, 3})));
  Curve curve = curve_of(1, {1, 2, 3}, "a");
  curve[1]["a"] = nullptr;
  EXPECT_TRUE(std::isnan(rank_correlation(curve, "a", "step")));
}

Batch batch_of(const std::vector<int32_t>& tokens) {
  Tokens s(1, int64_t(tokens.size()));
  s.ids = tokens;
  return next_token_batch(s);
}

// Inputs 1 2 1 3 2 1, targets 2 1 3 2 1 2. Positions with an earlier copy: 2 (seen: 1 twice, 2), 4 (1 and 2 twice, 3),
// and 5 (1 three times, 2 twice, 3). Targets there: 3 (not seen), 1, 2.
TEST(OrderBlind, ByHand) {
  const Batch batch = batch_of({1, 2, 1, 3, 2, 1, 2});
  const double any = (0 + 1.0 / 3 + 1.0 / 3) / 3, most = (0 + 1.0 / 2 + 0) / 3, least = 0;
  EXPECT_NEAR(order_blind_accuracy(batch), std::max({any, most, least}), 1e-12);
  // Inputs 1 1 1: at position 1 the target is the only token seen so far, at position 2 it is new.
  EXPECT_NEAR(order_blind_accuracy(batch_of({1, 1, 1, 2})), 0.5, 1e-12);
}

TEST(InductionAccuracy, CountsWhereTheTokenWasSeen) {
  const Batch batch = batch_of({1, 2, 1, 2, 3});  // inputs 1 2 1 2: sources at positions 2 and 3, targets 2 and 3
  Predictions p{1, 4, {0, 0, 2, 1}, {0, 0, 0, 0}};
  EXPECT_EQ(induction_accuracy(p, batch), 0.5);
  EXPECT_TRUE(std::isnan(induction_accuracy({1, 3, {0, 0, 0}, {0, 0, 0}}, batch_of({1, 2, 3, 4}))));
}

TEST(Predict, IsTheModelsLossByPosition) {
  Config c;
  c.d_vocab = 9, c.d_model = 8, c.n_heads = 2, c.d_head = 4, c.n_ctx = 12;
  const Transformer model(c, 1);
  Rng rng(2, Stream::eval);
  Tokens s(37, 13);  // more than two groups of 16
  for (int32_t& id : s.ids) id = int32_t(rng.below(9));
  const Batch batch = next_token_batch(s);
  const Predictions p = predict(model, batch);
  ASSERT_EQ(p.best.size(), size_t(37 * 12));
  double by_position = 0;
  for (int64_t t = 0; t < 12; ++t) by_position += p.mean_loss_at(t) / 12;
  EXPECT_NEAR(by_position, double(model.loss(batch.inputs, batch.targets).value().item()), 1e-5);
  const Tensor logits = model.logits(batch.inputs).value();
  for (int64_t i = 0; i < 37 * 12; ++i)
    for (int64_t v = 0; v < 9; ++v) EXPECT_LE(logits.data()[i * 9 + v], logits.data()[i * 9 + p.best[size_t(i)]]);
}

TEST(IclScore, IsLateMinusEarly) {
  Predictions p{2, 50, std::vector<int32_t>(100), std::vector<double>(100, 9)};
  p.loss[5] = 4, p.loss[55] = 2, p.loss[49] = 1, p.loss[99] = 2;  // positions floor(5) and floor(49)
  EXPECT_EQ(icl_score(p), 1.5 - 3);
}

TEST(HeadScores, HaveOneNumberPerHead) {
  Config c;
  c.d_vocab = 5, c.n_layers = 2, c.n_heads = 3, c.n_ctx = 12;
  Rng rng(1, Stream::analysis);
  const HeadScores s = head_scores(Transformer(c, 0), repeated_random(4, 6, 2, 5, rng));
  for (const auto& kind : {s.previous, s.duplicate, s.prefix}) {
    ASSERT_EQ(kind.size(), 2u);
    for (const auto& layer : kind) EXPECT_EQ(layer.size(), 3u);
  }
  EXPECT_EQ(best(std::vector<double>{}), 0);
  EXPECT_EQ(best(std::vector<std::vector<double>>{{0.1, 0.3}, {0.2}}), 0.3);
}

Finding finding(double value, const Bound& bound) {
  return {empirical, "T8",      "a claim", "a metric", value, bound, {{"untrained", 0.25}, {"none", nan}},
          "0.9",     "a source"};
}

TEST(Findings, HoldOrNot) {
  EXPECT_TRUE(finding(1, at_least(1)).holds());
  EXPECT_FALSE(finding(0.99, at_least(1)).holds());
  EXPECT_TRUE(finding(1, at_most(1)).holds());
  EXPECT_FALSE(finding(1.01, at_most(1)).holds());
  EXPECT_FALSE(finding(nan, at_least(1)).holds());
  EXPECT_FALSE(finding(nan, at_most(1)).holds());
  EXPECT_FALSE(finding(1, at_least(nan)).holds());
  EXPECT_FALSE(finding(1, {"=", 1}).holds());
}

TEST(Findings, SurviveJson) {
  for (const double value : {0.1 + 0.2, nan, -1e-300}) {
    const Finding f = finding(value, at_least(0.6));
    const auto j = nlohmann::json::parse(to_json(f).dump());
    EXPECT_EQ(j.at("holds").get<bool>(), f.holds());
    const Finding back = finding_from_json(j);
    EXPECT_EQ(to_json(back).dump(), to_json(f).dump());
    EXPECT_TRUE(std::isnan(value) ? std::isnan(back.value) : back.value == value);
    EXPECT_TRUE(std::isnan(back.controls.at("none")));
  }
}

TEST(Findings, TablesSayWhatFails) {
  const std::string table = findings_table({finding(0.7, at_least(0.6)), finding(nan, at_least(0.6))});
  EXPECT_NE(table.find("FAILS"), std::string::npos);
  EXPECT_NE(table.find("1 of 2 findings hold"), std::string::npos);
  // Median and worst over seeds; a run without a number is the worst there is.
  const std::string seeds =
      seeds_table({{finding(0.7, at_least(0.6))}, {finding(nan, at_least(0.6))}, {finding(0.8, at_least(0.6))}});
  EXPECT_NE(seeds.find("2/3        0.7        nan"), std::string::npos) << seeds;
}

TEST(IclScore, OfTwoPositionsOrWhatIsAroundThem) {
  Predictions p{2, 20, {}, {}};
  for (int b = 0; b < 2; ++b)
    for (int t = 0; t < 20; ++t) p.loss.push_back(t * t + b);
  EXPECT_DOUBLE_EQ(icl_score(p, 0.5, 0.1), 100 - 4);
  EXPECT_DOUBLE_EQ(icl_score(p, 0.5, 0.1, 0.05), (81 + 100 + 121 - 1 - 4 - 9) / 3.0);
  EXPECT_DOUBLE_EQ(icl_score(p), 19 * 19 - 4);
}

TEST(CopiedAccuracy, CountsOnlyThesePositions) {
  const Predictions p{2, 3, {1, 2, 3, 4, 5, 6}, {}};
  Tokens targets(2, 3);
  targets.ids = {1, 0, 0, 0, 5, 0};
  EXPECT_DOUBLE_EQ(copied_accuracy(p, targets, {{0, 0, 0}, {1, 1, 0}}), 1);
  EXPECT_DOUBLE_EQ(copied_accuracy(p, targets, {{0, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 2, 0}}), 0.5);
}

TEST(Copies, FirstAndLaterWithoutEachPassagesFirstToken) {
  Predictions p{1, 255, {}, {}};
  for (int next = 1; next <= 255; ++next) p.loss.push_back(next % 64 == 0 ? 1000 : next < 64 ? 3 : next < 128 ? 2 : 1);
  const Copies c = copies_of(p);
  EXPECT_DOUBLE_EQ(c.first, 3);
  EXPECT_DOUBLE_EQ(c.later, 4 / 3.0);
}

TEST(GainByOrder, IsThatOfInductionHeads) {
  constexpr int64_t passage = TextData::passage;
  Rng rng(5);
  Corpus corpus;  // of random bytes: all that can be known is what was there before
  for (int i = 0; i < 40 * passage; ++i) corpus.held_out.push_back(int32_t(rng.below(256)));
  const TextData::Text text(corpus);
  const Tokens &copies = text.passages.inputs, &shuffled = text.shuffled.inputs;
  for (int64_t b = 0; b < copies.B; ++b)
    for (int64_t c = 1; c < TextData::copies - 1; ++c) {  // of the first, one token is <bos> instead
      const auto copy = [&](const Tokens& x) {
        const auto start = x.ids.begin() + b * x.T + c * passage;
        return std::vector<int32_t>(start, start + passage);
      };
      EXPECT_NE(copy(copies), copy(shuffled));
      EXPECT_TRUE(std::ranges::is_permutation(copy(copies), copy(shuffled)));
    }
  for (int64_t t = 3 * passage; t < copies.T; ++t) EXPECT_EQ(copies(0, t), shuffled(0, t));

  const Transformer induction = model_of(handmade_induction(257, TextData::T));
  EXPECT_GT(gain_by_order(induction, text), 1);
  Config c;
  c.d_vocab = 257, c.n_ctx = TextData::T, c.n_layers = 0;
  EXPECT_EQ(gain_by_order(Transformer(c, 0), text), 0);
}

TEST(PatternTable, ShowsWhatWasSeen) {
  EXPECT_EQ(pattern_table(Tensor::from({2, 2}, {1, 0, 0.25, 0.75}), {"A", "B"}),
            "         A    B\n    A  1.0    .\n    B  0.2  0.8");
}

TEST(Snapshots, RanksOfAllHeadsAndPathsOfLosses) {
  Curve a, b;  // two models that go the same way to (1, 0), and then apart
  const std::vector<std::vector<double>> first{{0, 0}, {1, 0}, {3, 0}}, second{{0, 0}, {1, 0}, {1, 4}};
  for (int i = 0; i < 3; ++i) {
    a.push_back({{"step", 10 * i}, {"losses", first[size_t(i)]}, {"prefix_1", {i, 2 * i}}});
    b.push_back({{"step", 10 * i}, {"losses", second[size_t(i)]}});
  }
  EXPECT_EQ(all_heads(a, "prefix_1"), (std::vector<double>{0, 0, 1, 2, 2, 4}));
  const Apart apart = loss_paths(a, b, 10);
  EXPECT_NEAR(apart.before, 0, 1e-5);
  EXPECT_NEAR(apart.end, std::sqrt(20.0), 1e-5);  // two numbers per snapshot: nothing is lost
  EXPECT_NEAR(apart.way, 3, 1e-5);
  b.pop_back();
  EXPECT_THROW(loss_paths(a, b, 10), Error);
}

}  // namespace
