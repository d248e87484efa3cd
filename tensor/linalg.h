// Dense linear algebra for small matrices, by LAPACK. Results are in double whatever Real is.
#pragma once

#include <complex>
#include <vector>

#include "tensor/tensor.h"

namespace clearhead::inline CLEARHEAD_REAL {

// The eigenvalues of a general square matrix [n, n], largest modulus first.
std::vector<std::complex<double>> eigenvalues(const Tensor& a);

// a [n, m] = U [n, r] diag(S) [r] Vh [r, m] with r = min(n, m), S descending, and rows of Vh (not columns) orthonormal.
struct Svd {
  Tensor U;
  std::vector<double> S;
  Tensor Vh;
};
Svd svd(const Tensor& a);

}  // namespace clearhead::inline CLEARHEAD_REAL
