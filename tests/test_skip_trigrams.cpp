// Skip-trigrams against a text: counted by hand, and against a model whose weights are written down.
#include <gtest/gtest.h>

#include "experiments/common/skip_trigram_report.h"
#include "tests/helpers.h"

namespace clearhead {
namespace {

//                                   0  1  2  3  4  5  6  7  8  9 10 11
const std::vector<int32_t> written = {7, 0, 1, 2, 9, 1, 2, 9, 9, 9, 1, 3};

TEST(SkipTrigrams, TheTextIsCounted) {
  // 0 ... 1 -> 2 within 4 tokens: the 1s at 2 and 5 come after the 0 at 1 (within 4), the 1 at 10 does not.
  const auto borne = borne_out(written, {{0, 1, 2}, {9, 1, 3}, {8, 1, 2}}, 4);
  ASSERT_EQ(borne.size(), 3u);
  EXPECT_EQ(borne[0].seen_with, 2);
  EXPECT_DOUBLE_EQ(borne[0].with, 1);
  EXPECT_DOUBLE_EQ(borne[0].without, 0.5);   // 3 follows the 1 at 10; one count is added
  EXPECT_DOUBLE_EQ(borne[0].adjacent, 0.5);  // the first 1 stands directly after the 0
  EXPECT_EQ(borne[1].seen_with, 2);          // the 1s at 5 and at 10
  EXPECT_DOUBLE_EQ(borne[1].with, 0.5);
  EXPECT_DOUBLE_EQ(borne[1].adjacent, 1);
  EXPECT_EQ(borne[2].seen_with, 0);  // a source that never comes
  EXPECT_DOUBLE_EQ(borne[2].with, 0);
}

TEST(SkipTrigrams, AWindowEndsWhereItSays) {
  EXPECT_EQ(borne_out(written, {{0, 1, 2}}, 3)[0].seen_with, 1);  // the 1 at 5 is four tokens after the 0
  EXPECT_EQ(borne_out(written, {{0, 1, 2}}, 9)[0].seen_with, 3);
}

TEST(SkipTrigrams, Kinds) {
  const Borne apart{1, 1, 1, 0}, together{1, 1, 1, 1};
  EXPECT_EQ(kind_of("·The", "the", apart), "copying");
  EXPECT_EQ(kind_of("····", "····", apart), "copying");
  EXPECT_EQ(kind_of("(", ")", apart), "code");
  EXPECT_EQ(kind_of("open", "\"", apart), "code");
  EXPECT_EQ(kind_of("If", "·then", apart), "words");
  EXPECT_EQ(kind_of("·me", "ers", together), "one word");
}

TEST(SkipTrigrams, TokensThatAreFrequent) {
  EXPECT_EQ(tokens_at_least({0.5, 0.1, 0.4}, 0.3), (std::vector<int64_t>{0, 2}));
  EXPECT_NE(error_of([] { tokens_at_least({0.5, 0.5}, 0.6); }).find("no token makes up 0.6"), std::string::npos);
  EXPECT_EQ(as_indices({2, 1, 0, 2}, {0, 2}), (std::vector<int32_t>{1, -1, 0, 1}));
}

// Four tokens in a space of four; one head that looks from token 1 at token 0 and then raises token 2.
Weights keep_in_mind() {
  Weights w;
  const Tensor identity = Tensor::from({4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  w.W_E = identity, w.W_U = identity;
  Head h;
  h.W_Q = Tensor::from({4, 1}, {0, 8, 0, 0}), h.W_K = Tensor::from({4, 1}, {1, 0, 0, 0});
  h.W_V = Tensor::from({4, 1}, {1, 0, 0, 0}), h.W_O = Tensor::from({1, 4}, {0, 0, 5, 0});
  w.layers = {{h}};
  return w;
}

TEST(SkipTrigrams, AreReadOffWrittenWeights) {
  const Weights w = keep_in_mind();
  const std::vector<double> p(4, 0.25);
  const auto rows = strongest(w, {0, 0}, p, 1, 2);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].source, 0);
  EXPECT_EQ(rows[0].destinations[0].token, 1);
  EXPECT_EQ(rows[0].outs[0].token, 2);
  const Gain g = largest_gain(w, rows[0], p, 4);
  EXPECT_EQ(g.triple.destination, 1);
  EXPECT_EQ(g.triple.out, 2);
  // Without the source, one of the four others is token 0 too (0.25 of each of four), beside two of token 1.
  EXPECT_GT(g.probability, 0);
}

TEST(SkipTrigrams, OfSomeTokensAreTheSame) {
  const Weights w = keep_in_mind(), some = of_tokens(w, {1, 0, 2});
  EXPECT_EQ(some.V(), 3);
  const Tensor all = token_ov(w, w.layers[0][0]).dense(), few = token_ov(some, some.layers[0][0]).dense();
  EXPECT_EQ(few.at({1, 2}), all.at({0, 2}));
  EXPECT_EQ(few.at({0, 2}), all.at({1, 2}));
  EXPECT_EQ(double(few.at({1, 2})), 5);
}

TEST(SkipTrigrams, TheReportCountsOnlyWhatIsRaised) {
  const Names names = [](int64_t id) { return std::string(1, char('a' + id)); };
  const GainReport nothing = report_gains({{{0, 1, 2}, 0.01}}, written, 4, 5, names);
  EXPECT_TRUE(std::isnan(nothing.median_lift));
  const GainReport one = report_gains({{{0, 1, 2}, 0.5}, {{0, 1, 3}, 0.01}}, written, 4, 5, names);
  EXPECT_DOUBLE_EQ(one.median_lift, 2);
  EXPECT_DOUBLE_EQ(one.borne, 1);
  EXPECT_NE(one.table.find("a ... b -> c"), std::string::npos) << one.table;
}

}  // namespace
}  // namespace clearhead
