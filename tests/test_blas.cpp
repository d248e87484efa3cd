// matmul against three plain loops, for every way in which an operand can lie in memory. Entries are small integers,
// whose sums are exact in any order, so the comparison is exact as well; a rounding test and a same-bits test use real
// numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "tensor/blas.h"
#include "tensor/parallel.h"
#include "tensor/random.h"
#include "tests/helpers.h"

using namespace clearhead;

namespace {

Tensor integers(const Shape& shape, Rng& rng) {
  Tensor t = Tensor::empty(shape);
  for (Real& x : t.mut()) x = Real(rng.below(9) - 4);
  return t;
}

// A [.., n, k] @ B [.., k, m] in double, or B a single [k, m].
std::vector<double> reference(const Tensor& a, const Tensor& b) {
  const int64_t n = a.dim(-2), k = a.dim(-1), m = b.dim(-1), batch = a.numel() / (n * k);
  const Tensor A = a.clone(), B = b.clone();
  std::vector<double> out(size_t(batch * n * m), 0);
  for (int64_t i = 0; i < batch; ++i) {
    const Real* const x = A.data() + i * n * k;
    const Real* const y = B.data() + (b.rank() == 2 ? 0 : i * k * m);
    for (int64_t r = 0; r < n; ++r)
      for (int64_t l = 0; l < k; ++l)
        for (int64_t c = 0; c < m; ++c) out[size_t((i * n + r) * m + c)] += double(x[r * k + l]) * double(y[l * m + c]);
  }
  return out;
}

void expect_exact(const Tensor& a, const Tensor& b, const std::string& what) {
  const Tensor c = matmul(a, b);
  ASSERT_EQ(c.shape(), a.shape().with(-1, b.dim(-1))) << what;
  ASSERT_TRUE(c.is_contiguous());
  const std::vector<double> expected = reference(a, b);
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(double(c.flat()[i]), expected[i])
        << what << ": element " << i << ", a " << a.shape() << ", b " << b.shape();
}

// A matrix [n, m] in every layout that views can produce.
struct Layout {
  const char* name;
  std::function<Tensor(int64_t n, int64_t m, Rng&)> make;
};
// clang-format off
const std::vector<Layout> layouts{
    {"rows", [](int64_t n, int64_t m, Rng& rng) { return integers({n, m}, rng); }},
    {"transposed", [](int64_t n, int64_t m, Rng& rng) { return integers({m, n}, rng).transpose(); }},
    {"column slice", [](int64_t n, int64_t m, Rng& rng) { return integers({n, m + 5}, rng).narrow(1, 2, m); }},
    {"column slice, transposed",
     [](int64_t n, int64_t m, Rng& rng) { return integers({m, n + 5}, rng).narrow(1, 3, n).transpose(); }},
    {"row slice", [](int64_t n, int64_t m, Rng& rng) { return integers({n + 3, m}, rng).narrow(0, 2, n); }},
    {"one row, repeated", [](int64_t n, int64_t m, Rng& rng) { return integers({1, m}, rng).expand({n, m}); }},
    {"one column, repeated", [](int64_t n, int64_t m, Rng& rng) { return integers({n, 1}, rng).expand({n, m}); }},
    {"one number, repeated", [](int64_t n, int64_t m, Rng& rng) { return integers({1, 1}, rng).expand({n, m}); }},
    {"no unit stride", [](int64_t n, int64_t m, Rng& rng) { return integers({n, m, 2}, rng).select(2, 1); }},
    {"no unit stride, transposed",
     [](int64_t n, int64_t m, Rng& rng) { return integers({m, n, 2}, rng).select(2, 1).transpose(); }},
};
// clang-format on

// The same bits for 1, 2 and 3 threads.
void expect_same_bits(const Tensor& a, const Tensor& b) {
  const int threads = num_threads();
  set_num_threads(1);
  const Tensor one = matmul(a, b);
  for (int n : {2, 3}) {
    set_num_threads(n);
    const Tensor several = matmul(a, b);
    EXPECT_EQ(std::memcmp(one.data(), several.data(), size_t(one.numel()) * sizeof(Real)), 0)
        << n << " threads, a " << a.shape() << ", b " << b.shape();
  }
  set_num_threads(threads);
}

}  // namespace

TEST(Matmul, EveryPairOfLayouts) {
  const std::vector<std::array<int64_t, 3>> sizes{{3, 4, 5}, {1, 1, 1}, {1, 5, 3}, {4, 1, 3},  {5, 7, 1},
                                                  {1, 1, 6}, {6, 1, 1}, {1, 9, 1}, {17, 33, 9}};
  Rng rng(0);
  for (const auto& [n, k, m] : sizes)
    for (const Layout& a : layouts)
      for (const Layout& b : layouts)
        ASSERT_NO_FATAL_FAILURE(
            expect_exact(a.make(n, k, rng), b.make(k, m, rng), std::string(a.name) + " x " + b.name));
}

// n, k, m for: chunks of rows, of the inner dimension and of columns, the borders between them, and products of tiles
// and of BLAS.
const std::vector<std::array<int64_t, 3>> chunked{
    {127, 8, 5},  {129, 8, 5},     {300, 20, 30},   {1023, 3, 2},    {1024, 3, 2},   {1100, 6, 7},
    {2047, 3, 5}, {2100, 65, 64},  {3, 2047, 4},    {3, 2048, 4},    {255, 2050, 2}, {1024, 2048, 1},
    {1, 5000, 1}, {2, 3073, 3},    {100, 3072, 20}, {30, 40, 1023},  {30, 4, 1024},  {7, 5, 1537},
    {1, 3, 1024}, {1024, 2, 1024}, {2, 1, 9000},    {120, 1100, 130}};

TEST(Matmul, EveryWayToCutTheWork) {
  Rng rng(1);
  for (const auto& [n, k, m] : chunked)
    for (const Layout& a : layouts)
      for (const size_t b : {0u, 3u, 6u})
        ASSERT_NO_FATAL_FAILURE(
            expect_exact(a.make(n, k, rng), layouts[b].make(k, m, rng), std::string(a.name) + " x " + layouts[b].name));
}

TEST(Matmul, Batches) {
  Rng rng(2);
  const Tensor a = integers({2, 3, 4, 5}, rng), b = integers({2, 3, 5, 6}, rng);
  expect_exact(a, b, "plain");
  expect_exact(integers({2, 3, 5, 4}, rng).transpose(), integers({2, 3, 6, 5}, rng).transpose(), "transposed");
  // attention: [B, T, H, d] seen as [B, H, T, d]
  const Tensor q = integers({2, 7, 3, 5}, rng).permute({0, 2, 1, 3}),
               k = integers({2, 7, 3, 5}, rng).permute({0, 2, 1, 3});
  expect_exact(q, k.transpose(), "queries x keys");
  expect_exact(q.permute({1, 0, 2, 3}), k.permute({1, 0, 3, 2}), "with the leading dimensions exchanged");
  // heads as column slices of one matrix: [d, H * h] seen as [H, d, h]
  const Tensor w = integers({8, 3 * 5}, rng).reshape({8, 3, 5}).transpose(0, 1);
  expect_exact(integers({1, 4, 8}, rng).expand({3, 4, 8}), w, "an input that all heads share");
  expect_exact(integers({3, 4, 5}, rng), integers({1, 5, 6}, rng).expand({3, 5, 6}),
               "a matrix that the whole batch shares");
  expect_exact(a, integers({5, 6}, rng), "a single matrix");
  expect_exact(q, integers({5, 6}, rng), "a view x a single matrix");
  expect_exact(a.narrow(1, 1, 2), b.narrow(1, 0, 2), "parts of batches");
  expect_exact(integers({1, 3, 4}, rng), integers({1, 4, 5}, rng), "a batch of one");
  expect_exact(integers({1, 1, 2, 2500}, rng), integers({1, 1, 2500, 3}, rng),
               "a batch of one, a long inner dimension");
  expect_exact(integers({2, 2, 2500}, rng), integers({2, 2500, 3}, rng), "a batch of two, a long inner dimension");
  expect_exact(integers({6, 1, 1}, rng), integers({6, 1, 1}, rng), "numbers");
  expect_exact(integers({6, 4, 5, 2}, rng).select(3, 0), integers({6, 5, 2, 2}, rng).select(3, 1), "no unit stride");
}

TEST(Matmul, RoundsLikeAnyOrderOfSummation) {
  Rng rng(3);
  for (const auto& [n, k, m] : chunked) {
    const Tensor a = random_normal({n, k}, 1, rng), b = random_normal({k, m}, 1, rng), c = matmul(a, b);
    const std::vector<double> expected = reference(a, b);
    const double bound = double(std::numeric_limits<Real>::epsilon()) * double(8 + 2 * k);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(double(c.flat()[i]), expected[i], bound) << "k = " << k;
  }
}

TEST(Matmul, SameBitsForAnyNumberOfThreads) {
  Rng rng(4);
  for (const auto& [n, k, m] : chunked) {
    expect_same_bits(random_normal({n, k}, 1, rng), random_normal({k, m}, 1, rng));
    expect_same_bits(random_normal({k, n}, 1, rng).transpose(), random_normal({m, k}, 1, rng).transpose());
  }
  expect_same_bits(random_normal({8, 64, 4, 16}, 1, rng).permute({0, 2, 1, 3}),
                   random_normal({8, 64, 4, 16}, 1, rng).permute({0, 2, 3, 1}));
  expect_same_bits(random_normal({700, 40, 30}, 1, rng), random_normal({700, 30, 20}, 1, rng));
}

TEST(Matmul, ShowsNanAndInfinity) {
  Tensor a({2, 3}, 1);
  a.mut()[1] = std::numeric_limits<Real>::quiet_NaN();
  a.mut()[4] = std::numeric_limits<Real>::infinity();
  const Tensor c = matmul(a, Tensor({3, 2}, 1));
  EXPECT_TRUE(std::isnan(c.at({0, 0})) && std::isnan(c.at({0, 1})));
  EXPECT_TRUE(std::isinf(c.at({1, 0})) && std::isinf(c.at({1, 1})));
}

TEST(Matmul, ErrorTexts) {
  EXPECT_EQ(error_of([] {
              matmul(Tensor({5, 7}), Tensor({4, 3}));
            }),
            "matmul: inner dimensions differ: a is [5, 7], b is [4, 3]");
  EXPECT_EQ(error_of([] { matmul(Tensor({7}), Tensor({7, 3})); }), "matmul: needs matrices: a is [7], b is [7, 3]");
  EXPECT_EQ(error_of([] {
              matmul(Tensor({2, 5, 7}), Tensor({3, 7, 4}));
            }),
            "matmul: leading dimensions differ: a is [2, 5, 7], b is [3, 7, 4] (b may also be a single matrix)");
  EXPECT_EQ(error_of([] {
              matmul(Tensor({5, 7}), Tensor({1, 7, 4}));
            }),
            "matmul: leading dimensions differ: a is [5, 7], b is [1, 7, 4] (b may also be a single matrix)");
  EXPECT_EQ(error_of([] { matmul(Tensor(), Tensor({7, 4})); }), "matmul: an operand is undefined");
}

struct Gemm : testing::TestWithParam<int> {
  ~Gemm() override { hot::use_vectors(64) || hot::use_vectors(32); }
};
INSTANTIATE_TEST_SUITE_P(VectorBytes, Gemm, testing::Values(16, 32, 64), testing::PrintToStringParamName());

TEST_P(Gemm, ScalesAndAccumulatesIntoABlock) {
  if (!hot::use_vectors(GetParam())) GTEST_SKIP() << "this machine has no such vectors";
  Rng rng(5);
  // every remainder of a tile's rows, a last tile that reaches back, long inner dimensions, and BLAS's share
  std::vector<std::array<int64_t, 3>> sizes{{3, 4, 5},     {1, 1, 1},    {60, 999, 50}, {999, 60, 50},
                                            {9, 600, 512}, {5, 30, 513}, {5000, 3, 70}, {2, 5, 1100}};
  for (int64_t n = 1; n <= 19; ++n) sizes.push_back({n, 3, 14 + 2 * n});
  for (const auto& [n, k, m] : sizes)
    for (int transposed = 0; transposed < 4; ++transposed) {
      const bool ta = transposed & 1, tb = transposed & 2;
      const Tensor a = integers(ta ? Shape{k, n + 1} : Shape{n, k + 1}, rng),
                   b = integers(tb ? Shape{m, k + 2} : Shape{k, m + 2}, rng);
      Tensor out({n, m + 3}, 1);
      Real* const block = out.mut().data() + 2;  // columns 2 .. m + 1
      gemm(n, m, k, 2, {a.data(), a.dim(1), ta}, {b.data(), b.dim(1), tb}, 3, block, m + 3);
      const Tensor A = a.narrow(1, 0, a.dim(1) - 1), B = b.narrow(1, 0, b.dim(1) - 2);
      const std::vector<double> product = reference(ta ? A.transpose() : A, tb ? B.transpose() : B);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m + 3; ++j) {
          const bool inside = j >= 2 && j < m + 2;
          ASSERT_EQ(double(out.at({i, j})), inside ? 2 * product[size_t(i * m + j - 2)] + 3 : 1)
              << n << ", " << k << ", " << m << ", transposed " << ta << tb;
        }
    }
}
