// Eigenvalues and singular values, by what defines them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tensor/blas.h"
#include "tensor/kernels.h"
#include "tensor/linalg.h"
#include "tensor/random.h"
#include "tests/helpers.h"

using namespace clearhead;

namespace {

constexpr double eps = double(std::numeric_limits<Real>::epsilon());

Tensor identity(int64_t n) {
  Tensor t({n, n});
  for (int64_t i = 0; i < n; ++i) t.mut()[size_t(i * n + i)] = 1;
  return t;
}

void expect_values(const std::vector<std::complex<double>>& values, const std::vector<std::complex<double>>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_LT(std::abs(values[i] - expected[i]), 10 * eps) << "eigenvalue " << i;
}

}  // namespace

TEST(Eigenvalues, KnownMatrices) {
  const double angle = 0.3, c = std::cos(angle), s = std::sin(angle);
  expect_values(eigenvalues(Tensor::from({2, 2}, {c, -s, s, c})), {{c, s}, {c, -s}});  // a rotation
  expect_values(eigenvalues(Tensor::from({2, 2}, {1, 5, 0, -3})), {-3, 1});            // triangular: the diagonal
  expect_values(eigenvalues(Tensor::from({3, 3}, {2, 9, 9, 0, 0, -3, 0, 3, 0})), {{0, 3}, {0, -3}, 2});
  expect_values(eigenvalues(Tensor::from({1, 1}, {-7})), {-7});
  expect_values(eigenvalues(Tensor({3, 3})), {0, 0, 0});
}

TEST(Eigenvalues, TracesOfAGeneralMatrix) {
  Rng rng(0);
  for (int64_t n : {2, 5, 30, 64}) {
    const Tensor whole = random_normal({n, n + 3}, 1, rng), a = whole.narrow(1, 2, n), square = matmul(a, a);  // a view
    const auto values = eigenvalues(a);
    ASSERT_EQ(values.size(), size_t(n));
    std::complex<double> sum = 0, sum_of_squares = 0;
    double trace = 0, trace_of_square = 0;
    for (const auto& z : values) sum += z, sum_of_squares += z * z;
    for (int64_t i = 0; i < n; ++i) trace += double(a.at({i, i})), trace_of_square += double(square.at({i, i}));
    EXPECT_LT(std::abs(sum - trace), 1e-11 * double(n));
    EXPECT_LT(std::abs(sum_of_squares - trace_of_square), 10 * eps * double(n * n));
    for (size_t i = 1; i < values.size(); ++i) EXPECT_GE(std::abs(values[i - 1]), std::abs(values[i]));
    // AB and BA have the same eigenvalues but for zeros: how a factored matrix is read
    const Tensor A = random_normal({n, 2}, 1, rng), B = random_normal({2, n}, 1, rng);
    const auto big = eigenvalues(matmul(A, B)), small = eigenvalues(matmul(B, A));
    for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(std::abs(big[i]), std::abs(small[i]), 100 * eps * double(n));
  }
}

TEST(Svd, MultipliesBackAndIsOrthonormal) {
  Rng rng(1);
  for (const Shape& shape :
       {Shape{7, 3}, Shape{3, 7}, Shape{5, 5}, Shape{1, 6}, Shape{6, 1}, Shape{1, 1}, Shape{60, 40}}) {
    const int64_t n = shape[0], m = shape[1], r = std::min(n, m);
    for (const Tensor& a : {random_normal(shape, 1, rng), random_normal({m, n}, 1, rng).transpose()}) {
      const auto [U, S, Vh] = svd(a);
      ASSERT_EQ(U.shape(), Shape({n, r}));
      ASSERT_EQ(Vh.shape(), Shape({r, m}));
      ASSERT_EQ(S.size(), size_t(r));
      for (size_t i = 0; i < S.size(); ++i) EXPECT_TRUE(S[i] >= 0 && (i == 0 || S[i - 1] >= S[i]));
      const Tensor diagonal = Tensor::from({r, 1}, S).expand({r, m});
      EXPECT_LT(max_abs_diff(matmul(U, mul(diagonal, Vh)), a), 100 * eps) << shape;
      EXPECT_LT(max_abs_diff(matmul(U.transpose(), U), identity(r)), 20 * eps) << shape;
      EXPECT_LT(max_abs_diff(matmul(Vh, Vh.transpose()), identity(r)), 20 * eps) << shape;
    }
  }
  EXPECT_EQ(svd(Tensor({3, 2})).S, (std::vector<double>{0, 0}));
  const std::vector<double> S = svd(Tensor::from({2, 2}, {0, -3, 2, 0})).S;
  EXPECT_NEAR(S[0], 3, 1e-12);
  EXPECT_NEAR(S[1], 2, 1e-12);
}

TEST(Linalg, ErrorTexts) {
  EXPECT_EQ(error_of([] { eigenvalues(Tensor({2, 3})); }), "eigenvalues: needs a square matrix, got [2, 3]");
  EXPECT_EQ(error_of([] { svd(Tensor({2, 3, 4})); }), "svd: needs a matrix, got [2, 3, 4]");
  for (Real bad : {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity()})
    for (int at = 0; at < 9; ++at) {
      Tensor a = identity(3);
      a.mut()[size_t(at)] = bad;
      EXPECT_EQ(error_of([&] { eigenvalues(a); }), "eigenvalues: the matrix has NaN or infinite entries, shape [3, 3]");
      EXPECT_EQ(error_of([&] { svd(a); }), "svd: the matrix has NaN or infinite entries, shape [3, 3]");
    }
}
