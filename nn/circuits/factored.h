// Factored: a matrix of low rank, A B, that is never multiplied out.
//
// Circuits are such matrices: a head's OV circuit over tokens is W_E W_V W_O W_U [V, V], of rank d_head. As a table of
// V = 4,096 it would be 16.8 million numbers; as A = W_E W_V [V, r] and B = W_O W_U [r, V] it is half a million, and
// what one asks of it needs no more than products of the small side:
//
//     norm          |A B|^2 = trace(A^T A  B B^T)                 two [r, r] matrices
//     trace         trace(A B) = sum_ij A_ij B_ji
//     eigenvalues   those of B A [r, r] and zeros: if A B v = l v then B A (B v) = l (B v)
//     singular      A = U_1 R with R = S_1 Vh_1, and R B [r, n] = U_2 S Vh, so A B = (U_1 U_2) S Vh
//
// Sums are kept as lists of terms (`Sum`): a composition with several heads is a sum of such products.
#pragma once

#include <complex>
#include <vector>

#include "tensor/linalg.h"
#include "tensor/tensor.h"

namespace clearhead::inline CLEARHEAD_REAL {

struct Factored {
  Tensor A, B;  // [m, r], [r, n]

  int64_t rows() const { return A.dim(0); }
  int64_t cols() const { return B.dim(1); }
  int64_t rank() const { return A.dim(1); }
  Factored transpose() const { return {B.transpose(), A.transpose()}; }
  Tensor dense() const;  // [m, n]: for small ones

  double norm() const;   // Frobenius
  double trace() const;  // of a square one
  // The r eigenvalues that can differ from zero, largest modulus first (of a square one).
  std::vector<std::complex<double>> eigenvalues() const;
  Svd svd() const;  // U [m, r], S [r], Vh [r, n]
};

// The product, as factors of the smaller rank. Error if the inner dimensions differ.
Factored operator*(const Factored& x, const Factored& y);
Factored operator*(const Tensor& x, const Factored& y);  // x dense, [k, m]
Factored operator*(const Factored& x, const Tensor& y);
double dot(const Factored& x, const Factored& y);  // <X, Y> = trace(X^T Y)

using Sum = std::vector<Factored>;
double norm(const Sum& terms);
Factored joined(const Sum& terms);  // one product again: [A_1 A_2 ..] [B_1; B_2; ..]

}  // namespace clearhead::inline CLEARHEAD_REAL
