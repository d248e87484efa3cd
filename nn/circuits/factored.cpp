#include "nn/circuits/factored.h"

#include <algorithm>
#include <cmath>

#include "tensor/blas.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

// <X, Y^T> = sum_ij X_ij Y_ji in double, for X [m, n] and Y [n, m]
double trace_of_product(const Tensor& x, const Tensor& y) {
  const Tensor a = x.contiguous(), b = y.transpose().contiguous();
  double sum = 0;
  for (int64_t i = 0; i < a.numel(); ++i) sum += double(a.data()[i]) * double(b.data()[i]);
  return sum;
}

void require_inner(const char* what, int64_t left, int64_t right) {
  require(left == right, "factored", what, ": inner dimensions differ, ", left, " and ", right);
}

void require_square(const char* what, const Factored& x) {
  require(x.rows() == x.cols(), "factored", what, " needs a square matrix, got [", x.rows(), ", ", x.cols(), "]");
}

}  // namespace

Tensor Factored::dense() const { return matmul(A, B); }

double Factored::norm() const { return std::sqrt(std::max(0., dot(*this, *this))); }

double Factored::trace() const {
  require_square("trace", *this);
  return trace_of_product(A, B);
}

std::vector<std::complex<double>> Factored::eigenvalues() const {
  require_square("eigenvalues", *this);
  return clearhead::eigenvalues(matmul(B, A));
}

Svd Factored::svd() const {
  const Svd left = clearhead::svd(A);
  Tensor R = left.Vh.clone();  // S Vh [min(m, r), r]
  for (int64_t i = 0; i < R.dim(0); ++i)
    for (int64_t j = 0; j < R.dim(1); ++j) R.mut()[size_t(i * R.dim(1) + j)] *= Real(left.S[size_t(i)]);
  const Svd right = clearhead::svd(matmul(R, B));
  return {matmul(left.U, right.U), right.S, right.Vh};
}

Factored operator*(const Factored& x, const Factored& y) {
  require_inner("product", x.cols(), y.rows());
  const Tensor middle = matmul(x.B, y.A);  // [r_x, r_y]
  if (x.rank() <= y.rank()) return {x.A, matmul(middle, y.B)};
  return {matmul(x.A, middle), y.B};
}

Factored operator*(const Tensor& x, const Factored& y) {
  require_inner("product", x.dim(-1), y.rows());
  return {matmul(x, y.A), y.B};
}

Factored operator*(const Factored& x, const Tensor& y) {
  require_inner("product", x.cols(), y.dim(0));
  return {x.A, matmul(x.B, y)};
}

// trace((A B)^T C D) = trace(A^T C  D B^T)
double dot(const Factored& x, const Factored& y) {
  require(x.rows() == y.rows() && x.cols() == y.cols(), "factored", "dot: shapes differ, [", x.rows(), ", ", x.cols(),
          "] and [", y.rows(), ", ", y.cols(), "]");
  return trace_of_product(matmul(x.A.transpose(), y.A), matmul(y.B, x.B.transpose()));
}

double norm(const Sum& terms) {
  double sum = 0;
  for (const Factored& x : terms)
    for (const Factored& y : terms) sum += dot(x, y);
  return std::sqrt(std::max(0., sum));
}

Factored joined(const Sum& terms) {
  require(!terms.empty(), "factored", "joined: there are no terms");
  int64_t rank = 0;
  for (const Factored& x : terms) rank += x.rank();
  const int64_t m = terms[0].rows(), n = terms[0].cols();
  Tensor A({m, rank}), B({rank, n});
  int64_t at = 0;
  for (const Factored& x : terms) {
    require(x.rows() == m && x.cols() == n, "factored", "joined: shapes differ, [", m, ", ", n, "] and [", x.rows(),
            ", ", x.cols(), "]");
    add_into(A, pad(x.A, A.shape(), 1, at));
    add_into(B, pad(x.B, B.shape(), 0, at));
    at += x.rank();
  }
  return {A, B};
}

}  // namespace clearhead::inline CLEARHEAD_REAL
