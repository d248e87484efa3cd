// The generator: a published known answer, streams that know nothing of each other, and the distributions. Seeds are
// fixed, so the statistical bounds (about four standard errors) hold always or never.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tensor/random.h"
#include "tests/helpers.h"

using namespace clearhead;

namespace {

std::vector<uint32_t> draw(Rng rng, int n) {
  std::vector<uint32_t> words;
  for (int i = 0; i < n; ++i) words.push_back(rng.bits());
  return words;
}

// The sum of (observed - expected)^2 / expected; about n with a standard deviation of sqrt(2 n) if the counts are
// uniform.
double chi_squared(const std::vector<int>& counts) {
  const double expected = double(std::accumulate(counts.begin(), counts.end(), 0)) / double(counts.size());
  double sum = 0;
  for (int c : counts) sum += (c - expected) * (c - expected) / expected;
  return sum;
}

}  // namespace

// Random123's kat_vectors: philox4x32 with 10 rounds, counter 0, key 0. In our terms: block 0 of stream 0, index 0,
// seed 0.
TEST(Rng, PhiloxKnownAnswer) {
  EXPECT_EQ(draw(Rng(0, Stream::init, 0), 4), (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(Rng, IsAFunctionOfSeedStreamAndIndex) {
  EXPECT_EQ(draw(Rng(7, Stream::data, 3), 100), draw(Rng(7, Stream::data, 3), 100));
  std::set<uint32_t> seen;
  size_t drawn = 0;
  for (uint64_t seed : {uint64_t(0), uint64_t(1), uint64_t(1) << 32, ~uint64_t(0)})
    for (Stream stream : {Stream::init, Stream::data, Stream::eval, Stream::dropout, Stream::analysis})
      for (uint64_t index : {uint64_t(0), uint64_t(1), uint64_t(1) << 32}) {
        for (uint32_t word : draw(Rng(seed, stream, index), 20)) seen.insert(word);
        drawn += 20;
      }
  EXPECT_EQ(seen.size(), drawn);  // 1,200 draws of 2^32 numbers: two equal ones would have a chance of 1 in 6,000
}

TEST(Rng, StreamsAreUncorrelated) {
  const int n = 100'000;
  const std::vector<Rng> others{Rng(1, Stream::data, 0), Rng(1, Stream::init, 1), Rng(2, Stream::init, 0)};
  for (Rng other : others) {
    Rng rng(1, Stream::init, 0);
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += (rng.uniform() - .5) * (other.uniform() - .5) * 12;
    EXPECT_LT(std::abs(sum / n), 4 / std::sqrt(double(n)));
  }
}

TEST(Rng, UniformIsInTheUnitIntervalAndFlat) {
  Rng rng(2);
  std::vector<int> counts(64);
  for (int i = 0; i < 64'000; ++i) {
    const double u = rng.uniform();
    ASSERT_TRUE(u >= 0 && u < 1);
    ++counts[size_t(u * 64)];
  }
  EXPECT_LT(chi_squared(counts), 63 + 4 * std::sqrt(126));
}

TEST(Rng, BelowIsUniform) {
  Rng rng(3);
  for (int64_t n : {1, 2, 7, 100}) {
    std::vector<int> counts(size_t(n), 0);
    for (int64_t i = 0; i < 1000 * n; ++i) {
      const int64_t k = rng.below(n);
      ASSERT_TRUE(k >= 0 && k < n);
      ++counts[size_t(k)];
    }
    EXPECT_LT(chi_squared(counts), double(n) + 4 * std::sqrt(2 * double(n))) << "n = " << n;
  }
  // With n = 3/4 of 2^32, a hasty product would hit every third number twice as often as the others.
  const int64_t large = 3'221'225'472;
  std::vector<int> thirds(3);
  for (int i = 0; i < 30'000; ++i) ++thirds[size_t(rng.below(large) % 3)];
  EXPECT_LT(chi_squared(thirds), 2 + 4 * std::sqrt(4));
  EXPECT_LT(rng.below(UINT32_MAX), int64_t(UINT32_MAX));
  EXPECT_EQ(error_of([&] { rng.below(0); }), "Rng::below: needs 1 <= n < 2^32, got 0");
  EXPECT_EQ(error_of([&] { rng.below(int64_t(1) << 32); }), "Rng::below: needs 1 <= n < 2^32, got 4294967296");
}

TEST(Rng, NormalHasTheMomentsOfANormal) {
  Rng rng(4);
  const int n = 200'000;
  double sum1 = 0, sum2 = 0, sum3 = 0, sum4 = 0, neighbours = 0, last = 0;
  int beyond_two = 0;
  for (int i = 0; i < n; ++i) {
    const double x = rng.normal();
    sum1 += x, sum2 += x * x, sum3 += x * x * x, sum4 += x * x * x * x, neighbours += x * last;
    beyond_two += std::abs(x) > 2;
    last = x;
  }
  const double error = 4 / std::sqrt(double(n));  // times the standard deviation of what is averaged
  EXPECT_NEAR(sum1 / n, 0, error);
  EXPECT_NEAR(sum2 / n, 1, error * std::sqrt(2));
  EXPECT_NEAR(sum3 / n, 0, error * std::sqrt(15));
  EXPECT_NEAR(sum4 / n, 3, error * std::sqrt(96));
  EXPECT_NEAR(neighbours / n, 0, error);  // the two numbers that Box-Muller makes at once are independent
  EXPECT_NEAR(double(beyond_two) / n, std::erfc(std::sqrt(2)), error * .21);
}

TEST(Rng, PermutationIsOne) {
  Rng rng(5);
  for (int32_t n : {0, 1, 2, 10, 1000}) {
    std::vector<int32_t> p = rng.permutation(n), expected(size_t(n), 0);
    std::iota(expected.begin(), expected.end(), 0);
    std::ranges::sort(p);
    EXPECT_EQ(p, expected);
  }
  std::vector<int> orders(24);  // all permutations of four are equally likely
  for (int i = 0; i < 24'000; ++i) {
    const std::vector<int32_t> p = rng.permutation(4);
    size_t number = 0;
    for (size_t k = 0; k < 4; ++k) {
      const auto smaller = std::count_if(p.begin() + int(k) + 1, p.end(), [&](int32_t v) { return v < p[k]; });
      number = number * (4 - k) + size_t(smaller);
    }
    ++orders[number];
  }
  EXPECT_LT(chi_squared(orders), 23 + 4 * std::sqrt(46));
}

TEST(Rng, RandomNormalFillsInOrder) {
  Rng a(6), b(6);
  const Tensor t = random_normal({3, 5}, 2, a);
  for (Real x : t.flat()) EXPECT_EQ(x, Real(2 * b.normal()));
}
