// The hot loops: plain functions over rows of numbers, written so that the compiler turns them into vector code.
//
// hot.cpp compiles them (loops.h, tiles.h) for AVX-512, AVX2 and 16-byte vectors, and picks one set at start-up: a
// portable binary that is fast everywhere. A compiler may not reorder floating-point additions unasked, so the loops
// say what is added up side by side. (-ffast-math would allow it, and would also make NaN checks disappear.) The result
// depends on the machine's vectors in the last bit, and on nothing else.
#pragma once

#include <cstdint>

#include "tensor/real.h"

namespace clearhead::inline CLEARHEAD_REAL {

// A matrix as BLAS reads it: where it begins, the distance between rows, and whether it is stored transposed.
struct MatrixRef {
  const Real* data;
  int64_t ld;
  bool transposed = false;
};

}  // namespace clearhead::inline CLEARHEAD_REAL

namespace clearhead::inline CLEARHEAD_REAL::hot {

extern Real (*sum)(const Real* x, int64_t n);
extern Real (*dot)(const Real* x, const Real* y, int64_t n);
extern double (*sum_of_squares)(const Real* x, int64_t n);

extern void (*add)(const Real* x, const Real* y, Real* out, int64_t n);  // out = x + y (out may be x or y)
extern void (*scale)(Real* x, Real factor, int64_t n);

extern Real (*max)(const Real* x, int64_t n);
// x_i <- exp(x_i - shift), and returns the sum. Below exp(-87) a float result is exactly 0, so exp(-inf) = 0.
// NaN stays NaN.
extern Real (*exp_and_sum)(Real* x, Real shift, int64_t n);
extern Real (*log_sum_exp)(const Real* x, int64_t n);  // max + ln sum exp(x - max)

// dx_i = p_i (dp_i - <p, dp>): the gradient of a softmax row with probabilities p. dx may be dp.
extern void (*softmax_pullback)(const Real* p, const Real* dp, Real* dx, int64_t n);

// Attention for `panel` destinations first, first + 1, ... side by side: s [first + panel, panel] holds their scores, a
// source in each row, and destination i sees sources up to i. s becomes exp(s - most), unnormalized, with
// inverse = 1 / their sum, both [panel].
constexpr int64_t panel = 32;
extern void (*attention_columns)(Real* s, int64_t first, Real* most, Real* inverse);
// And back: s becomes the pattern p = exp(s - most) * inverse, dp becomes ds = p (dp - d) * scale, where d is the sum of
// p dp over sources. Unseen entries become 0.
extern void (*attention_columns_pullback)(Real* s, Real* dp, int64_t first, const Real* most, const Real* inverse,
                                          Real scale);

// out [n, m] = alpha * a [n, k] b [k, m] + beta * out, for factors that fit into the cache (tiles.h), m >= 16.
extern void (*product)(int64_t n, int64_t m, int64_t k, Real alpha, const MatrixRef& a, const Real* b, int64_t b_ld,
                       Real beta, Real* out, int64_t out_ld);
// out[r, c] = x[r, c], or out[c, r] = x[r, c], for x [rows, cols]
extern void (*copy)(const Real* x, int64_t ld, int64_t rows, int64_t cols, Real* out, int64_t out_ld);
extern void (*transpose)(const Real* x, int64_t ld, int64_t rows, int64_t cols, Real* out, int64_t out_ld);

// One step of AdamW. The corrections are 1 / (1 - beta^t).
struct AdamStep {
  Real lr, beta1, beta2, eps, decay, correction1, correction2;
};
extern void (*adam)(const AdamStep& c, const Real* grad, Real grad_scale, Real* m, Real* v, Real* w, int64_t n);

// The loops use the widest vectors that this machine has. To test the others: 16, 32 or 64 bytes; false if it has not.
bool use_vectors(int bytes);

}  // namespace clearhead::inline CLEARHEAD_REAL::hot
