#include "tensor/blas.h"

#include <cblas.h>

#include <algorithm>
#include <vector>

#include "tensor/hot.h"
#include "tensor/parallel.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

// Before main: LAPACK (linalg.cpp) goes through the same library, and may well be called before the first product.
[[maybe_unused]] const bool one_thread = (openblas_set_num_threads(1), true);

// [rows, cols] with element (i, j) at data[i * row_stride + j * col_stride].
struct Matrix {
  const Real* data;
  int64_t rows, cols, row_stride, col_stride;
};

bool gemm_can_read(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  const bool by_rows = (col_stride == 1 || cols == 1) && (row_stride >= cols || rows == 1);
  const bool by_columns = (row_stride == 1 || rows == 1) && (col_stride >= rows || cols == 1);
  return by_rows || by_columns;
}

MatrixRef ref(const Matrix& m) {
  if ((m.col_stride == 1 || m.cols == 1) && (m.row_stride >= m.cols || m.rows == 1))
    return {m.data, std::max(m.row_stride, m.cols), false};
  return {m.data, std::max(m.col_stride, m.rows), true};
}

// out [a.rows, b.cols], contiguous: a b + beta * out, where beta is 0 or 1. The cut is chosen by the shapes alone. What every chunk reads or copies again should
// be small:
//   rows      b, again in each chunk       many rows: activations x weights
//   inner     adds partial products, in    few rows, long inner dimension: X^T dY, the gradient of a weight, which sums
//             order                        over every position of the batch
//   columns   a, again in each chunk       the same with a large vocabulary
void product(const Matrix& a, const Matrix& b, Real beta, Real* out) {
  const int64_t n = a.rows, m = b.cols, k = a.cols;
  const MatrixRef A = ref(a), B = ref(b);
  const auto from = [](MatrixRef r, int64_t elements) { return MatrixRef{r.data + elements, r.ld, r.transposed}; };
  if (n < 1024 && k >= 2048 && n * m <= 1 << 18) {
    constexpr int64_t grain = 1024;
    const int64_t parts = (k + grain - 1) / grain;
    const Tensor partial = Tensor::empty({parts, n, m});
    Real* const p = partial.storage()->data();
    parallel_for(k, grain, [&](int64_t begin, int64_t end) {
      gemm(n, m, end - begin, 1, from(A, begin * a.col_stride), from(B, begin * b.row_stride), 0,
           p + begin / grain * n * m, m);
    });
    parallel_for(n * m, 8192, [&](int64_t begin, int64_t end) {
      if (beta == 0) std::fill(out + begin, out + end, Real(0));
      for (int64_t part = 0; part < parts; ++part)
        hot::add(out + begin, p + part * n * m + begin, out + begin, end - begin);
    });
  } else if (n < 1024 && m >= 1024) {
    parallel_for(m, 512, [&](int64_t begin, int64_t end) {
      gemm(n, end - begin, k, 1, A, from(B, begin * b.col_stride), beta, out + begin, m);
    });
  } else {
    parallel_for(n,
                 n >= 2048   ? 512
                 : n >= 1024 ? 256
                             : 128,
                 [&](int64_t begin, int64_t end) {
                   gemm(end - begin, m, k, 1, from(A, begin * a.row_stride), B, beta, out + begin * m, m);
                 });
  }
}

constexpr int64_t small = 1 << 17;  // half a megabyte of floats, which stay in the cache

Matrix last_two(const Tensor& t) { return {t.data(), t.dim(-2), t.dim(-1), t.stride(-2), t.stride(-1)}; }

Tensor readable(const Tensor& t) {
  return gemm_can_read(t.dim(-2), t.dim(-1), t.stride(-2), t.stride(-1)) ? t : t.contiguous();
}

}  // namespace

void gemm(int64_t n, int64_t m, int64_t k, Real alpha, const MatrixRef& a, const MatrixRef& b, Real beta, Real* out,
          int64_t out_ld) {
  // Where b is small enough to stay in the cache, tiles.h needs no copies of the factors; it takes a long inner
  // dimension by parts. Rows far apart compete for few places in the cache: these are left to BLAS, which copies.
  const bool tiled = !b.transposed && m >= 16 && m <= 512 && b.ld <= 1024 && (!a.transposed || a.ld <= 1024);
  if (tiled) {
    const int64_t step = a.transposed ? 256 : small / m, stride = a.transposed ? a.ld : 1;
    int64_t i = 0;
    do
      hot::product(n, m, std::min(step, k - i), alpha, {a.data + i * stride, a.ld, a.transposed}, b.data + i * b.ld,
                   b.ld, i ? 1 : beta, out, out_ld);
    while ((i += step) < k);
  } else {
    const auto ta = a.transposed ? CblasTrans : CblasNoTrans, tb = b.transposed ? CblasTrans : CblasNoTrans;
    const auto N = blasint(n), M = blasint(m), K = blasint(k), lda = blasint(a.ld), ldb = blasint(b.ld),
               ldc = blasint(out_ld);
#ifdef CLEARHEAD_DOUBLE
    cblas_dgemm(CblasRowMajor, ta, tb, N, M, K, alpha, a.data, lda, b.data, ldb, beta, out, ldc);
#else
    cblas_sgemm(CblasRowMajor, ta, tb, N, M, K, alpha, a.data, lda, b.data, ldb, beta, out, ldc);
#endif
  }
}

namespace {

Shape product_shape(const Tensor& a, const Tensor& b) {
  require(a.defined() && b.defined(), "matmul", "an operand is undefined");
  require(a.rank() >= 2 && b.rank() >= 2, "matmul", "needs matrices: a is ", a.shape(), ", b is ", b.shape());
  require(a.dim(-1) == b.dim(-2), "matmul", "inner dimensions differ: a is ", a.shape(), ", b is ", b.shape());
  require(
      b.rank() == 2 || (a.rank() == b.rank() && std::equal(a.shape().begin(), a.shape().end() - 2, b.shape().begin())),
      "matmul", "leading dimensions differ: a is ", a.shape(), ", b is ", b.shape(),
      " (b may also be a single matrix)");
  return a.shape().with(-1, b.dim(-1));
}

void multiply(const Tensor& a_in, const Tensor& b_in, Real beta, Real* y) {
  if (b_in.rank() == 2) {  // one b for all rows of a: fold a's leading dimensions into the rows
    const Tensor a = readable(a_in.reshape({-1, a_in.dim(-1)}));
    const Tensor b = b_in.numel() <= small ? b_in.contiguous() : readable(b_in);  // see gemm
    product(last_two(a), last_two(b), beta, y);
    return;
  }
  const Tensor a = readable(a_in), b = readable(b_in);
  const int64_t n = a.dim(-2), m = b.dim(-1), k = a.dim(-1), batch = a.numel() / (n * k);
  if (batch == 1) return product(last_two(a), last_two(b), beta, y);
  const auto offset = [](const Tensor& t,
                         int64_t item) {  // of matrix number `item`, counted over the leading dimensions
    int64_t at = 0;
    for (int axis = t.rank() - 3; axis >= 0; --axis) {
      at += item % t.dim(axis) * t.stride(axis);
      item /= t.dim(axis);
    }
    return at;
  };
  const MatrixRef A = ref(last_two(a)), B = ref(last_two(b));
  const int64_t grain = std::max<int64_t>(1, 500'000 / (n * m * k));  // at least about 10 us of work per chunk
  parallel_for(batch, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      gemm(n, m, k, 1, {A.data + offset(a, i), A.ld, A.transposed}, {B.data + offset(b, i), B.ld, B.transposed}, beta,
           y + i * n * m, m);
  });
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  Tensor out = Tensor::empty(product_shape(a, b));
  multiply(a, b, 0, out.mut().data());
  return out;
}

void add_matmul(Tensor& out, const Tensor& a, const Tensor& b) {
  const Shape shape = product_shape(a, b);
  require(out.shape() == shape && out.is_contiguous(), "add_matmul", "a b is ", shape, ", out is ", out.shape());
  multiply(a, b, 1, out.mut().data());
}

}  // namespace clearhead::inline CLEARHEAD_REAL
