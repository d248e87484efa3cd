// The synthetic languages: what a sequence may look like, that it depends on its Rng only, and that the claimed lower
// bounds of the loss (best predictor, entropy) are what enumeration and sampling say.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "experiments/common/copied_segment.h"
#include "experiments/common/in_context_markov.h"
#include "experiments/common/tasks.h"

using namespace clearhead;

namespace {

// Prefix and segment length of a sequence: the first token that appears again tells both.
std::pair<int64_t, int64_t> prefix_and_length(const Tokens& s, int64_t b) {
  std::map<int32_t, int64_t> first;
  for (int64_t t = 0; t < s.T; ++t)
    if (const auto [seen, is_new] = first.try_emplace(s(b, t), t); !is_new) return {seen->second, t - seen->second};
  return {-1, -1};
}

TEST(RepeatedSegment, RepeatsOneSegmentOfDistinctTokensAfterAPrefix) {
  const RepeatedSegment task{.V = 20, .T = 40, .shortest = 4, .longest = 10};
  Rng rng(1, Stream::data);
  const Tokens s = task.sample(300, rng);
  EXPECT_EQ(s.shape(), (Shape{300, 41}));
  std::set<std::pair<int64_t, int64_t>> kinds;
  std::set<int32_t> tokens;
  for (int64_t b = 0; b < s.B; ++b) {
    const auto [prefix, n] = prefix_and_length(s, b);
    ASSERT_TRUE(n >= 4 && n <= 10 && prefix >= 0 && prefix < n) << prefix << ", " << n;
    kinds.insert({prefix, n});
    std::set<int32_t> distinct;
    for (int64_t t = 0; t < s.T; ++t) {
      ASSERT_TRUE(s(b, t) >= 0 && s(b, t) < 20);
      tokens.insert(s(b, t));
      if (t < prefix + n)
        ASSERT_TRUE(distinct.insert(s(b, t)).second);
      else
        ASSERT_EQ(s(b, t), s(b, t - n));
    }
  }
  EXPECT_GT(kinds.size(), 40u);  // of 4 + .. + 10 = 49: "what stood L positions ago" predicts nothing
  EXPECT_EQ(tokens.size(), 20u);
}

TEST(RepeatedSegment, IsAFunctionOfItsRng) {
  const RepeatedSegment task;
  const auto ids = [&](uint64_t seed, Stream stream, uint64_t index) {
    Rng rng(seed, stream, index);
    return task.sample(4, rng).ids;
  };
  EXPECT_EQ(ids(1, Stream::data, 7), ids(1, Stream::data, 7));
  EXPECT_NE(ids(1, Stream::data, 7), ids(1, Stream::data, 8));
  EXPECT_NE(ids(1, Stream::data, 7), ids(1, Stream::eval, 7));
  EXPECT_NE(ids(1, Stream::data, 7), ids(2, Stream::data, 7));
}

TEST(RepeatedSegment, FixedIsTheControl) {
  const RepeatedSegment task{.V = 20, .T = 40, .shortest = 4, .longest = 10, .fixed = true};
  Rng rng(1, Stream::data);
  const Tokens s = task.sample(50, rng);
  for (int64_t b = 0; b < s.B; ++b) EXPECT_EQ(prefix_and_length(s, b), (std::pair<int64_t, int64_t>{0, 7}));
  EXPECT_THROW(task.bayes_loss(s), Error);
  EXPECT_THROW((RepeatedSegment{.V = 10, .T = 40, .shortest = 4, .longest = 6}.sample(1, rng)), Error);
}

// All sequences of a small task with their probabilities; -ln of the exact p(next | so far) must be what bayes_loss
// says.
TEST(RepeatedSegment, BayesLossByEnumeration) {
  const RepeatedSegment task{.V = 5, .T = 7, .shortest = 2, .longest = 3};
  std::map<std::vector<int32_t>, double> mass;  // of every prefix of every sequence
  std::set<std::vector<int32_t>> sequences;
  for (int64_t n = 2; n <= 3; ++n)
    for (int64_t p = 0; p < n; ++p) {
      std::vector<int32_t> tokens{0, 1, 2, 3, 4};
      do {
        std::vector<int32_t> s;
        for (int64_t t = 0; t <= task.T; ++t) {
          mass[s] += 1.0 / 2 / double(n) / 120;
          s.push_back(tokens[size_t(t < p + n ? t : p + (t - p) % n)]);
        }
        mass[s] += 1.0 / 2 / double(n) / 120;
        sequences.insert(s);
      } while (std::ranges::next_permutation(tokens).found);
    }
  EXPECT_NEAR((mass[{}]), 1, 1e-12);
  Tokens all(int64_t(sequences.size()), task.T + 1);
  all.ids.clear();
  for (const auto& s : sequences) all.ids.insert(all.ids.end(), s.begin(), s.end());
  const auto loss = task.bayes_loss(all);
  size_t k = 0;
  for (const auto& s : sequences)
    for (auto end = s.begin() + 1; end != s.end(); ++end, ++k)
      ASSERT_NEAR(loss[k], -std::log(mass[{s.begin(), end + 1}] / mass[{s.begin(), end}]), 1e-12)
          << "position " << end - s.begin();
  EXPECT_EQ(k, loss.size());
}

TEST(InductionSources, AreWhatFollowedTheMostRecentCopy) {
  Tokens x(2, 6);
  x.ids = {1, 2, 1, 3, 1, 1, 4, 5, 6, 4, 5, 4};
  EXPECT_EQ(induction_sources(x), (std::vector<int64_t>{-1, -1, 1, -1, 3, 5, -1, -1, -1, 1, 2, 4}));
}

TEST(RepeatedRandom, HasItsPeriod) {
  Rng rng(1, Stream::analysis);
  const Tokens s = repeated_random(3, 5, 4, 50, rng);
  EXPECT_EQ(s.shape(), (Shape{3, 20}));
  for (int64_t b = 0; b < 3; ++b)
    for (int64_t t = 5; t < 20; ++t) EXPECT_EQ(s(b, t), s(b, t - 5));
  EXPECT_NE(s(0, 0) * 50 + s(0, 1), s(1, 0) * 50 + s(1, 1));
}

TEST(MarkovChain, IsOneAndKnowsItsEntropies) {
  const MarkovChain chain(6, Rng(3, Stream::data));
  for (int64_t i = 0; i < 6; ++i) {
    double row = 0, into = 0;
    for (int64_t j = 0; j < 6; ++j)
      row += chain.P[size_t(i * 6 + j)], into += chain.pi[size_t(j)] * chain.P[size_t(j * 6 + i)];
    EXPECT_NEAR(row, 1, 1e-12);
    EXPECT_NEAR(into, chain.pi[size_t(i)], 1e-12);  // stationary
  }
  Rng rng(4, Stream::eval);
  const Tokens s = chain.sample(400, 250, rng);
  std::vector<double> count(6, 0), first(6, 0);
  double surprise = 0, transitions = 0;
  for (int64_t b = 0; b < s.B; ++b) {
    first[size_t(s(b, 0))] += 1.0 / double(s.B);
    for (int64_t t = 0; t < s.T; ++t) {
      count[size_t(s(b, t))] += 1.0 / double(s.B * s.T);
      if (t > 0) surprise -= std::log(chain.P[size_t(s(b, t - 1) * 6 + s(b, t))]), ++transitions;
    }
  }
  double unigram = 0;
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(count[i], chain.pi[i], 0.01);
    EXPECT_NEAR(first[i], chain.pi[i], 0.1);  // starts from pi: 4 standard deviations of 400 draws
    unigram -= count[i] * std::log(count[i]);
  }
  EXPECT_NEAR(surprise / transitions, chain.entropy(), 0.015);
  EXPECT_NEAR(unigram, chain.unigram_entropy(), 0.015);
  EXPECT_LT(chain.entropy(), chain.unigram_entropy());
}

TEST(MarkovChain, IsAFunctionOfItsRng) {
  EXPECT_EQ(MarkovChain(4, Rng(1)).P, MarkovChain(4, Rng(1)).P);
  EXPECT_NE(MarkovChain(4, Rng(1)).P, MarkovChain(4, Rng(2)).P);
}

TEST(CopiedSegment, CopiesOneSegmentToALaterPlace) {
  const CopiedSegment task{.V = 50, .T = 30, .length = 6};
  Rng rng(2);
  const auto s = task.sample(400, rng);
  EXPECT_EQ(s.tokens.shape(), (Shape{400, 31}));
  std::set<int64_t> from, to, distance;
  for (int64_t b = 0; b < 400; ++b) {
    const int64_t f = s.from[size_t(b)], t = s.to[size_t(b)];
    from.insert(f), to.insert(t), distance.insert(t - f);
    ASSERT_TRUE(f >= 0 && t >= f + 6 && t + 6 <= 31);
    for (int64_t i = 0; i < 6; ++i) ASSERT_EQ(s.tokens(b, f + i), s.tokens(b, t + i));
  }
  EXPECT_EQ(*to.begin(), 6);
  EXPECT_EQ(*to.rbegin(), 25);
  EXPECT_EQ(*from.begin(), 0);
  EXPECT_GE(distance.size(), 19u);  // 6 .. 25
  const auto where = copied_positions(task, s);
  ASSERT_EQ(where.size(), 400u * 5);
  for (const auto& [b, t, source] : where) {
    ASSERT_EQ(s.tokens(b, t), s.tokens(b, source));
    ASSERT_EQ(s.tokens(b, t + 1), s.tokens(b, source + 1));
  }
  EXPECT_THROW((CopiedSegment{.V = 5, .T = 10, .length = 6}.sample(1, rng)), Error);
}

// A segment of three tokens; what is predicted are the second and third of its copy, which begins at `to`.
double rule(const std::vector<int32_t>& ids, int64_t from, int64_t to, int64_t n, int64_t gap = 1) {
  CopiedSegment::Sample s{Tokens(1, int64_t(ids.size())), {from}, {to}};
  s.tokens.ids = ids;
  return matching_accuracy({.V = 10, .T = int64_t(ids.size()) - 1, .length = 3}, s, n, gap);
}

TEST(CopiedSegment, RulesByHand) {
  EXPECT_EQ(rule({1, 2, 3, 2, 9, 1, 4, 1, 2, 3}, 0, 7, 1), 1);        // the first occurrences are the right ones
  EXPECT_EQ(rule({1, 4, 2, 9, 5, 1, 2, 3, 1, 2, 3}, 5, 8, 1), 1);     // the last ones are
  EXPECT_EQ(rule({1, 4, 2, 9, 5, 1, 2, 3, 1, 2, 3}, 5, 8, 1, 4), 0);  // but they are only three back
  EXPECT_EQ(rule({1, 4, 1, 2, 3, 1, 4, 2, 1, 2, 3}, 2, 8, 1), 0.5);   // 1: 4, 2, 4 followed; 2: 3 or (last) 1
  EXPECT_EQ(rule({5, 1, 4, 5, 1, 2, 1, 4, 5, 1, 2}, 3, 8, 1), 0.5);   // 5: always 1; 1: 4, 2, 4 followed
  EXPECT_EQ(rule({7, 1, 4, 5, 1, 2, 1, 4, 5, 1, 2}, 3, 8, 2), 1);     // "5 1" was followed by 2 alone
  Tokens x(1, 5);
  x.ids = {1, 2, 1, 3, 1};
  EXPECT_EQ(followers(x, {0, 4, 0}), 2);
  EXPECT_EQ(followers(x, {0, 2, 0}), 1);
}

TEST(InContextMarkov, StrategiesByHand) {
  Tokens x(1, 4);
  x.ids = {0, 1, 0, 1};
  const Tensor unigrams = predictions_of(unigram, x, 3), bigrams = predictions_of(bigram, x, 3);
  EXPECT_NEAR(double(predictions_of(uniform, x, 3).at({0, 3, 2})), 1.0 / 3, 1e-6);
  EXPECT_NEAR(double(unigrams.at({0, 2, 0})), 3.0 / 6, 1e-6);  // seen: 0 twice, 1 once
  EXPECT_NEAR(double(bigrams.at({0, 2, 1})), 2.0 / 4, 1e-6);   // after 0 came 1, once
  EXPECT_NEAR(double(bigrams.at({0, 1, 2})), 1.0 / 3, 1e-6);   // after 1 nothing came yet
  EXPECT_NEAR(double(bigrams.at({0, 3, 0})), 2.0 / 4, 1e-6);
  EXPECT_NEAR(kl(unigrams, unigrams), 0, 1e-9);
  EXPECT_NEAR(kl(Tensor::from({1, 1, 2}, {1, 0}), Tensor::from({1, 1, 2}, {0.5, 0.5})), std::log(2.0), 1e-6);
  EXPECT_THROW(kl(unigrams, Tensor({1, 4, 2})), Error);
}

// Mean loss in nats of a strategy on sampled sequences.
double loss_of(Strategy strategy, const InContextMarkov& task) {
  Rng rng(3, Stream::eval);
  const Batch batch = next_token_batch(task.sample(1000, rng));
  const Tensor p = predictions_of(strategy, batch.inputs, task.k);
  double sum = 0;
  for (int64_t b = 0; b < batch.inputs.B; ++b)
    for (int64_t t = 0; t < batch.inputs.T; ++t) sum -= std::log(double(p.at({b, t, batch.targets(b, t)})));
  return sum / double(batch.inputs.ids.size());
}

TEST(InContextMarkov, BigramsPredictBestAndUnigramsSayNothingWhereStatesAreEquallyFrequent) {
  const InContextMarkov task, equal{.doubly_stochastic = true};
  EXPECT_NEAR(loss_of(uniform, task), std::log(3.0), 1e-5);
  EXPECT_LT(loss_of(unigram, task), loss_of(uniform, task) - 0.05);
  EXPECT_LT(loss_of(bigram, task), loss_of(unigram, task) - 0.05);
  EXPECT_GT(loss_of(unigram, equal), loss_of(uniform, equal));  // estimating what is equal costs a little
  EXPECT_LT(loss_of(bigram, equal), loss_of(uniform, equal) - 0.05);
}

TEST(OtherSuccessors, EndWithATokenThatHadNotFollowed) {
  Rng rng(3);
  const Batch batch = other_successors(200, 40, 40, rng);
  for (int64_t b = 0; b < 200; ++b) {
    const Tokens& x = batch.inputs;
    const int64_t last = x.T - 1;
    const int32_t a = x(b, last), c = batch.targets(b, last);
    EXPECT_EQ(x(b, 0), 40);
    int64_t of_a = -1, of_c = -1;
    for (int64_t t = 1; t < last; ++t) {
      EXPECT_EQ(batch.targets(b, t), -1);
      EXPECT_EQ(std::count(x.ids.begin() + b * x.T + 1, x.ids.begin() + b * x.T + last, x(b, t)), 1);
      if (x(b, t) == a) of_a = t;
      if (x(b, t) == c) of_c = t;
    }
    EXPECT_TRUE(of_a > 0 && of_c > 0 && of_c != of_a + 1 && of_c != of_a && of_a + 1 < last);
  }
  EXPECT_THROW(other_successors(1, 29, 0, rng), Error);
}

TEST(Repeated, EveryRowSeveralTimes) {
  Tokens x(2, 3);
  x.ids = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(repeated(x, 2).ids, (std::vector<int32_t>{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
}

}  // namespace
