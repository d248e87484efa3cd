// Head detectors, on attention patterns made by hand: each knows its own kind of head, and no other.
#include <gtest/gtest.h>

#include "nn/circuits/heads.h"
#include "tensor/kernels.h"
#include "tests/helpers.h"

using namespace clearhead;

namespace {

// [2, 3, T, T]: head 1 attends from i to `source(b, i)` alone, and to position 0 where that is negative; the others to
// i.
template <class Source>
Tensor pattern_of(const Tokens& x, Source source) {
  Tensor p({x.B, 3, x.T, x.T});
  const auto out = p.mut();
  for (int64_t b = 0; b < x.B; ++b)
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t i = 0; i < x.T; ++i) {
        const int64_t j = h == 1 ? std::max<int64_t>(0, source(b, i)) : i;
        out[size_t(((b * 3 + h) * x.T + i) * x.T + j)] = 1;
      }
  return p;
}

Tokens tokens_of(int64_t rows, const std::vector<int32_t>& ids) {
  Tokens x(rows, int64_t(ids.size()) / rows);
  x.ids = ids;
  return x;
}

// A new token, then two different segments, each repeated once; no token stands next to its copy.
const Tokens x = tokens_of(2, {9, 1, 2, 3, 4, 1, 2, 3, 4, 8, 5, 6, 7, 0, 5, 6, 7, 0});

int64_t copy_of(int64_t b, int64_t i) {  // the earlier position with the same token, or -1
  for (int64_t j = i - 1; j >= 0; --j)
    if (x(b, j) == x(b, i)) return j;
  return -1;
}
int64_t previous(int64_t, int64_t i) { return i - 1; }
int64_t duplicate(int64_t b, int64_t i) { return copy_of(b, i); }
int64_t induction(int64_t b, int64_t i) { return copy_of(b, i) < 0 ? -1 : copy_of(b, i) + 1; }
int64_t before_the_copy(int64_t b, int64_t i) { return copy_of(b, i) < 0 ? -1 : copy_of(b, i) - 1; }

struct Scores {
  double previous, duplicate, prefix, current, first;
};
template <class Source>
Scores scores(Source source, size_t head = 1) {
  const Tensor p = pattern_of(x, source);
  return {previous_token_scores(p)[head], duplicate_token_scores(p, x)[head], prefix_matching_scores(p, x)[head],
          current_token_scores(p)[head], first_token_scores(p)[head]};
}

TEST(Detectors, CurrentAndFirstTokenHeads) {
  const Scores current = scores([](int64_t, int64_t i) { return i; });
  EXPECT_EQ(current.current, 1);
  EXPECT_EQ(current.first, 0);  // position 0, which has no choice, does not count
  EXPECT_EQ(current.previous, 0);
  const Scores first = scores([](int64_t, int64_t) { return 0; });
  EXPECT_EQ(first.first, 1);
  EXPECT_EQ(first.current, 0);
  EXPECT_EQ(first.duplicate, 0);
}

TEST(Detectors, PreviousTokenHead) {
  const Scores s = scores(previous);
  EXPECT_EQ(s.previous, 1);
  EXPECT_EQ(s.duplicate, 0);
  EXPECT_EQ(s.prefix, 0);
}

TEST(Detectors, DuplicateTokenHead) {
  const Scores s = scores(duplicate);
  EXPECT_EQ(s.duplicate, 1);
  EXPECT_EQ(s.prefix, 0);
  EXPECT_LE(s.previous, 1.0 / 8);  // only where "nothing to look for" meant position 0
}

TEST(Detectors, InductionHead) {
  const Scores s = scores(induction);
  EXPECT_EQ(s.prefix, 1);
  EXPECT_EQ(s.duplicate, 0);
  EXPECT_LE(s.previous, 1.0 / 8);
}

// The other reading of "prefix matching" is none.
TEST(Detectors, AHeadOneBeforeTheCopyIsNoInductionHead) {
  const Scores s = scores(before_the_copy);
  EXPECT_EQ(s.prefix, 0);
  EXPECT_EQ(s.duplicate, 0);
}

TEST(Detectors, EveryHeadHasItsOwnScore) {
  const Scores s = scores(induction, 0);  // attends to itself
  EXPECT_EQ(s.previous, 0);
  EXPECT_EQ(s.duplicate, 0);
  EXPECT_EQ(s.prefix, 0);
  EXPECT_EQ(previous_token_scores(pattern_of(x, previous)).size(), 3u);
}

TEST(Detectors, SeveralSourcesOfOneDestinationAreSummed) {
  const Tokens twice = tokens_of(1, {1, 2, 1, 3, 1});
  Tensor p({1, 1, 5, 5});
  p.mut()[4 * 5 + 1] = Real(0.25);  // destination 4: what followed the first 1,
  p.mut()[4 * 5 + 3] = Real(0.5);   // and the second
  p.mut()[4 * 5 + 0] = Real(0.125);
  p.mut()[2 * 5 + 1] = Real(0.5);  // destination 2
  EXPECT_EQ(prefix_matching_scores(p, twice)[0], (0.75 + 0.5) / 2);
  EXPECT_EQ(duplicate_token_scores(p, twice)[0], 0.125 / 2);
}

// Destination and copy side by side: what followed the copy is the destination itself.
TEST(Detectors, ARepeatedTokenMayBeItsOwnSource) {
  Tensor p({1, 1, 2, 2});
  p.mut()[2 + 1] = 1;
  EXPECT_EQ(prefix_matching_scores(p, tokens_of(1, {4, 4}))[0], 1);
}

TEST(Detectors, LeaveThePatternAloneAndReadViews) {
  const Tensor p = pattern_of(x, induction), turned = p.transpose(2, 3).clone().transpose(2, 3);
  const Tensor before = p.clone();
  EXPECT_EQ(prefix_matching_scores(turned, x), prefix_matching_scores(p, x));
  EXPECT_EQ(max_abs_diff(p, before), 0);
}

TEST(Detectors, RefuseWhatTheyCannotScore) {
  EXPECT_EQ(error_of([] {
              previous_token_scores(Tensor({2, 3, 4}));
            }),
            "heads: a pattern is [B, H, T, T], got [2, 3, 4]");
  EXPECT_EQ(error_of([] {
              previous_token_scores(Tensor({1, 1, 1, 1}, 1));
            }),
            "heads: no position of these tokens has a source of that kind");
  EXPECT_EQ(error_of([] {
              duplicate_token_scores(Tensor({1, 1, 4, 4}), x);
            }),
            "heads: the pattern [1, 1, 4, 4] is not of tokens [2, 9]");
  EXPECT_EQ(error_of([] {
              prefix_matching_scores(Tensor({1, 1, 3, 3}), tokens_of(1, {1, 2, 3}));
            }),
            "heads: no position of these tokens has a source of that kind");
}

}  // namespace
