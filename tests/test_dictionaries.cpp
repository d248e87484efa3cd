// Lines of dictionaries, and the prompts that ask for one: what stands where, and what a model that answers is credited with.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "experiments/common/dictionaries.h"

using namespace clearhead;

namespace {

TEST(DictionaryLines, TargetsAreTheValuesOfKeysThatOccurredBefore) {
  for (const double with_arrows : {0.0, 1.0}) {
    Rng rng(3, Stream::data);
    const Batch lines = dictionary_lines(64, with_arrows, rng);
    const int64_t per_line = with_arrows > 0 ? 3 : 2;
    int64_t known = 0;
    for (int64_t b = 0; b < 64; ++b) {
      std::map<int32_t, int32_t> value_of;
      for (int64_t t = 0; t + per_line <= 64; t += per_line) {
        const Pair line{lines.inputs(b, t), lines.inputs(b, t + per_line - 1)};
        ASSERT_FALSE(held_out(line));
        ASSERT_LT(std::max(line.key, line.value), letters);
        ASSERT_EQ(lines.inputs(b, t + 1), per_line == 3 ? arrow : line.value);
        const auto [before, is_new] = value_of.try_emplace(line.key, line.value);
        ASSERT_EQ(before->second, line.value);
        ASSERT_EQ(lines.targets(b, t + per_line - 2), is_new ? -1 : line.value);
        known += !is_new;
        ASSERT_EQ(lines.targets(b, t + per_line - 1), -1);
      }
    }
    EXPECT_GT(known, 64 * 10);
  }
}

TEST(Prompts, ShowEveryLineOnceAndAskForOne) {
  const Prompts p = prompts(6, Ask::seen, 1);
  ASSERT_EQ(p.tokens.shape(), (Shape{512, 20}));
  std::set<int64_t> places;
  for (int64_t b = 0; b < 512; ++b) {
    const int64_t at = p.shown[size_t(b)];
    places.insert(at);
    ASSERT_EQ(p.tokens(b, at), p.answers[size_t(b)]);
    ASSERT_EQ(p.tokens(b, at - 2), p.tokens(b, 18));
    ASSERT_EQ(p.tokens(b, 19), arrow);
    for (const Pair& pair : p.pairs[size_t(b)]) ASSERT_NE(pair.value, p.rivals[size_t(b)]);
  }
  EXPECT_EQ(places, (std::set<int64_t>{2, 5, 8, 11, 14, 17}));
}

TEST(Prompts, DifferInWhatTheyAskFor) {
  for (const Pairs& pairs : prompts(4, Ask::unseen_pairs, 1).pairs)
    for (const Pair& p : pairs) ASSERT_TRUE(held_out(p));
  for (const int32_t answer : prompts(4, Ask::untrained_values, 1).answers) ASSERT_GE(answer, letters);
  const Prompts keys = prompts(4, Ask::untrained_keys, 1), unseen = prompts(4, Ask::unseen_key, 1);
  for (int64_t b = 0; b < 512; ++b) {
    ASSERT_GE(keys.tokens(b, keys.tokens.T - 2), letters);
    for (int64_t t = 0; t < unseen.tokens.T - 2; ++t)
      ASSERT_NE(unseen.tokens(b, t), unseen.tokens(b, unseen.tokens.T - 2));
  }
}

TEST(Prompts, ShowALineSeveralTimesAndThenAnotherValue) {
  const Prompts p = prompts(5, Ask::seen, 1, 3, true);
  ASSERT_EQ(p.tokens.shape(), (Shape{512, 3 * 8 + 2}));
  std::set<int64_t> places;
  for (int64_t b = 0; b < 512; ++b) {
    std::vector<int32_t> values;
    for (int64_t t = 0; t < 24; t += 3)
      if (p.tokens(b, t) == p.tokens(b, 24)) values.push_back(p.tokens(b, t + 2)), places.insert(t);
    const int32_t first = p.answers[size_t(b)], last = p.rivals[size_t(b)];
    ASSERT_EQ(values, (std::vector{first, first, first, last}));
  }
  EXPECT_EQ(places.size(), 8u);  // they stand anywhere
}

TEST(Prompts, AreAnsweredByTheBestGuess) {
  Config c;
  c.d_vocab = dictionary_V;
  const Transformer model(c, 0);
  Prompts q = prompts(3, Ask::seen, 1);
  const NoGrad no_grad;
  const Tensor logits = model.logits(q.tokens).value();
  for (int64_t b = 0; b < 512; ++b) {
    const Tensor row = logits.select(0, b).select(0, q.tokens.T - 1).contiguous();
    q.answers[size_t(b)] = int32_t(std::ranges::max_element(row.flat()) - row.flat().begin());
  }
  EXPECT_NEAR(ask(model, q).right, 1, 1e-9);
  EXPECT_GT(ask(model, q).p, 1.0 / dictionary_V);
  for (int32_t& id : q.answers) id = (id + 1) % dictionary_V;
  EXPECT_EQ(ask(model, q).right, 0);
  const Looks l = looks(model, q);
  EXPECT_TRUE(l.right > 0 && l.right < l.all && l.all < 1) << l.right << ", " << l.all;
}

}  // namespace
