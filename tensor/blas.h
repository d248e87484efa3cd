// Matrix products. blas.cpp is the only file that knows BLAS.
//
// BLAS reads a matrix by pointer, leading dimension and a "transposed" flag. A transposed tensor, or a column slice
// such as one head's part of W_Q, is described by these too, so it goes to gemm as it is; only a view with no unit
// stride at all (or an expanded one) is copied first. BLAS runs on one thread: we cut the rows into chunks and give
// each to a thread (parallel.h), so a product has no barrier inside and the same bits for any number of threads.
#pragma once

#include "tensor/hot.h"
#include "tensor/tensor.h"

namespace clearhead::inline CLEARHEAD_REAL {

// a [..., n, k] @ b -> [..., n, m], where b is [k, m] (the same matrix for all) or [..., k, m] with a's leading
// dimensions.
Tensor matmul(const Tensor& a, const Tensor& b);
void add_matmul(Tensor& out, const Tensor& a, const Tensor& b);  // out += a @ b; out is contiguous

// out[n, m] = alpha * a[n, k] @ b[k, m] + beta * out, on raw memory: the building block of fused ops. Single-threaded.
void gemm(int64_t n, int64_t m, int64_t k, Real alpha, const MatrixRef& a, const MatrixRef& b, Real beta, Real* out,
          int64_t out_ld);

}  // namespace clearhead::inline CLEARHEAD_REAL
