// Arithmetic on tensors. Every function returns a new contiguous tensor and takes any view; shapes must match exactly
// (repeating is an explicit expand). No gradients here: autograd/ops/ builds on these.
#pragma once

#include <algorithm>

#include "tensor/parallel.h"
#include "tensor/tensor.h"

namespace clearhead::inline CLEARHEAD_REAL {

constexpr int64_t elementwise_grain = 16384;

// y_i = f(x_i)
template <class F>
Tensor map(const Tensor& x, F f) {
  const Tensor in = x.contiguous();
  Tensor out = Tensor::empty(x.shape());
  const Real* const a = in.data();
  Real* const y = out.mut().data();
  parallel_for(x.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = f(a[i]);
  });
  return out;
}

// z_i = f(x_i, y_i)
template <class F>
Tensor zip(const char* name, const Tensor& x, const Tensor& y, F f) {
  require(x.shape() == y.shape(), name, "shapes differ: a is ", x.shape(), ", b is ", y.shape(),
          " (use expand to repeat a dimension)");
  const Tensor in_x = x.contiguous(), in_y = y.contiguous();
  Tensor out = Tensor::empty(x.shape());
  const Real *const a = in_x.data(), *const b = in_y.data();
  Real* const z = out.mut().data();
  parallel_for(x.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) z[i] = f(a[i], b[i]);
  });
  return out;
}

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor scale(const Tensor& a, Real factor);
void add_into(Tensor& sum, const Tensor& x);  // sum += x

Tensor sum(const Tensor& x, int axis);               // [.., n, ..] -> [.., ..]: the axis is dropped
Tensor sum_to(const Tensor& x, const Shape& shape);  // the inverse of expand: sums what expand repeated
Tensor pad(const Tensor& x, const Shape& shape, int axis, int64_t start);  // the inverse of narrow: zeros around x
double sum_all(const Tensor& x);                                           // chunk sums in double, added in order
double max_abs_diff(const Tensor& a, const Tensor& b);
double relative_difference(const Tensor& a, const Tensor& b);  // max |a - b| / max |b|
bool all_finite(const Tensor& x);

// Calls body(row, y_row) for every last-axis row of `x`, where y has x's shape and starts as a copy of it.
template <class F>
Tensor map_rows(const Tensor& x, F body) {
  Tensor out = x.clone();
  const int64_t n = x.rank() == 0 ? 1 : x.dim(-1);
  Real* const y = out.mut().data();
  parallel_for(x.numel() / n, std::max<int64_t>(1, elementwise_grain / n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) body(r, y + r * n);
  });
  return out;
}

Tensor softmax(const Tensor& x);  // over the last axis, shifted by the row maximum
Tensor log_softmax(const Tensor& x);
// [.., T, T] scores -> pattern: row i (destination) is a softmax over columns 0..i (sources); later columns are exactly
// 0.
Tensor causal_softmax(const Tensor& scores);

}  // namespace clearhead::inline CLEARHEAD_REAL
