// parallel_for: every index once, cuts that do not depend on the threads, exceptions, nesting.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tensor/error.h"
#include "tensor/parallel.h"
#include "tests/helpers.h"

using namespace clearhead;

namespace {

using Chunk = std::pair<int64_t, int64_t>;

// Restores the number of threads.
struct Threads {
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before = num_threads();
};

std::multiset<Chunk> chunks(int64_t n, int64_t grain) {
  std::mutex mutex;
  std::multiset<Chunk> seen;
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    std::lock_guard lock(mutex);
    seen.emplace(begin, end);
  });
  return seen;
}

}  // namespace

TEST(ParallelFor, CutsDependOnNAndGrainOnly) {
  for (int64_t n : {0, 1, 9, 10, 11, 100, 101, 1000})
    for (int64_t grain : {1, 10, 64, 1000}) {
      std::multiset<Chunk> expected;
      for (int64_t begin = 0; begin < n; begin += grain) expected.emplace(begin, std::min(begin + grain, n));
      for (int threads : {1, 2, 3, 8}) {
        Threads limit(threads);
        EXPECT_EQ(chunks(n, grain), expected) << "n " << n << ", grain " << grain << ", threads " << threads;
      }
    }
}

TEST(ParallelFor, UsesTheThreadsAndReusesThem) {
  Threads limit(3);
  std::set<std::thread::id> ids;
  std::mutex mutex;
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> arrived{0};
    parallel_for(3, 1, [&](int64_t, int64_t) {
      ++arrived;
      while (arrived < 3) std::this_thread::yield();  // all three chunks run at the same time
      std::lock_guard lock(mutex);
      ids.insert(std::this_thread::get_id());
    });
  }
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_TRUE(ids.contains(std::this_thread::get_id()));
}

TEST(ParallelFor, RethrowsWhatAChunkThrew) {
  for (int threads : {1, 2, 3}) {
    Threads limit(threads);
    for (int round = 0; round < 50; ++round) {
      EXPECT_EQ(error_of([&] {
                  parallel_for(100, 1, [](int64_t begin, int64_t) { require(begin != 57, "chunk", "no ", begin); });
                }),
                "chunk: no 57");
      EXPECT_EQ(chunks(100, 7).size(), 15u);  // and is as good as new afterwards
    }
    EXPECT_THROW(parallel_for(100, 1, [](int64_t, int64_t) { throw 5; }), int);  // many throw: one arrives
  }
  EXPECT_EQ(error_of([] { parallel_for(1, 0, [](int64_t, int64_t) {}); }),
            "parallel_for: grain must be at least 1, got 0");
  EXPECT_EQ(error_of([] { set_num_threads(0); }), "threads: at least 1, got 0");
}

TEST(ParallelFor, NestedCallsRunInline) {
  Threads limit(3);
  std::atomic<int> elsewhere{0}, inner_calls{0};
  const auto nested = [&] {
    parallel_for(6, 1, [&](int64_t, int64_t) {
      const auto here = std::this_thread::get_id();
      parallel_for(5, 1, [&](int64_t, int64_t) {
        ++inner_calls;
        elsewhere += std::this_thread::get_id() != here;
      });
      // an error of the inner loop reaches the outer one, which goes on being inside a chunk
      EXPECT_EQ(error_of([] { parallel_for(5, 1, [](int64_t, int64_t) { fail("inner", "no"); }); }), "inner: no");
      parallel_for(5, 1, [&](int64_t, int64_t) { elsewhere += std::this_thread::get_id() != here; });
    });
  };
  nested();
  EXPECT_EQ(inner_calls, 30);
  EXPECT_EQ(elsewhere, 0);
}

TEST(ParallelSum, SameBitsForAnyNumberOfThreads) {
  const auto sum = [] {
    return parallel_sum(100'000, 100, [](int64_t begin, int64_t end) {
      double s = 0;
      for (int64_t i = begin; i < end; ++i) s += std::sin(double(i)) * std::exp(-double(i % 37));
      return s;
    });
  };
  Threads one(1);
  const double expected = sum();
  for (int threads : {2, 3, 8}) {
    Threads limit(threads);
    for (int round = 0; round < 20; ++round) EXPECT_EQ(sum(), expected);
  }
  EXPECT_EQ(parallel_sum(0, 10, [](int64_t, int64_t) { return 1.; }), 0);
  EXPECT_EQ(parallel_sum(101, 10, [](int64_t begin, int64_t end) { return double(end - begin); }), 101);
}
