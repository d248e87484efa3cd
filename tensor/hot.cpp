#include "tensor/hot.h"

#include <bit>
#include <cmath>
#include <limits>

#include "tensor/lanes.h"

namespace clearhead::inline CLEARHEAD_REAL::hot {
namespace {

// The first `seen` of n numbers, from i on: lanes beyond `seen` are padding. Reads up to n, so that a row that
// continues behind `seen` needs no partial load.
[[gnu::always_inline]] inline Lanes load_seen(const Real* x, int64_t i, int64_t seen, int64_t n, Real padding) {
  return first_lanes(seen - i, load(x + i, n - i, padding), all(padding));
}

// All lanes moved by `by`, around the end. Adding a vector to itself moved by half its width, by a quarter, ... gives
// the total in every lane.
template <int by>
[[gnu::always_inline]] inline Lanes moved(const Lanes& v) {
  Index from = {};
  for (int lane = 0; lane < width; ++lane) from[lane] = (lane + by) % int(width);
  return __builtin_shuffle(v, from);
}

[[gnu::always_inline]] inline Real total(Lanes v) {
  if constexpr (width == 16) v += moved<8>(v);
  v += moved<4>(v);
  v += moved<2>(v);
  v += moved<1>(v);
  return v[0];
}

[[gnu::always_inline]] inline Real largest(Lanes v) {
  const auto larger = [](const Lanes& a, const Lanes& b) __attribute__((always_inline)) { return a > b ? a : b; };
  if constexpr (width == 16) v = larger(v, moved<8>(v));
  v = larger(v, moved<4>(v));
  v = larger(v, moved<2>(v));
  return larger(v, moved<1>(v))[0];
}

// exp x = 2^n * e^r with n = round(x / ln 2) and |r| <= ln 2 / 2, where the series to r^7 is exact to float precision.
// Adding 1.5 * 2^23 rounds to an integer and leaves n in the low bits, from where a shift puts it into the exponent.
// ln 2 is subtracted in two parts so that n * (upper part) is exact. From n = 128 on (x > 88.37) that exponent is
// infinity's.
#ifndef CLEARHEAD_DOUBLE
typedef uint32_t Bits __attribute__((vector_size(64)));

[[gnu::always_inline]] inline Lanes exponential(Lanes x) {
  const Lanes above = x < -87.f ? all(-87.f) : x, clamped = above > 89.f ? all(89.f) : above;
  const Lanes shifted = clamped * 1.44269504f + 12582912.f, n = shifted - 12582912.f;
  const Lanes r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  Lanes p = r * (1.f / 5040) + 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + .5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  const Lanes power = std::bit_cast<Lanes>((std::bit_cast<Bits>(shifted) << 23) + (127u << 23));
  return x < -87.f ? Lanes{} : p * power;
}
#else
[[gnu::always_inline]] inline Lanes exponential(Lanes x) {
  for (int64_t i = 0; i < width; ++i) x[i] = std::exp(x[i]);
  return x;
}
#endif

constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();

// (A NaN is passed over here, and found by the sum that follows.)
[[gnu::always_inline]] inline Real row_max(const Real* x, int64_t seen, int64_t n) {
  Lanes m = all(minus_infinity);
  for (int64_t i = 0; i < seen; i += width) {
    const Lanes v = load_seen(x, i, seen, n, minus_infinity);
    m = m > v ? m : v;
  }
  return largest(m);
}

[[gnu::always_inline]] inline Real row_exp(Real* x, Real shift, int64_t seen, int64_t n) {
  Lanes s = {};
  for (int64_t i = 0; i < n; i += width) {
    const Lanes e = exponential(load_seen(x, i, seen, n, minus_infinity) - shift);
    store(x + i, n - i, e);
    s += e;
  }
  return total(s);
}

}  // namespace

CLEARHEAD_CLONES Real max(const Real* x, int64_t seen, int64_t n) { return row_max(x, seen, n); }

CLEARHEAD_CLONES Real sum(const Real* x, int64_t n) {
  Lanes s = {};
  for (int64_t i = 0; i < n; i += width) s += load(x + i, n - i, 0);
  return total(s);
}

CLEARHEAD_CLONES Real dot(const Real* x, const Real* y, int64_t n) {
  Lanes s = {};
  for (int64_t i = 0; i < n; i += width) s += load(x + i, n - i, 0) * load(y + i, n - i, 0);
  return total(s);
}

CLEARHEAD_CLONES double sum_of_squares(const Real* x, int64_t n) {
  double s = 0;
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) s += double(x[i]) * double(x[i]);
  return s;
}

CLEARHEAD_CLONES void add(const Real* x, const Real* y, Real* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

CLEARHEAD_CLONES void scale(Real* x, Real factor, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

CLEARHEAD_CLONES Real exp_and_sum(Real* x, Real shift, int64_t seen, int64_t n) { return row_exp(x, shift, seen, n); }

CLEARHEAD_CLONES Real log_sum_exp(const Real* x, int64_t n) {
  const Real m = max(x, n, n);
  Lanes s = {};
  for (int64_t i = 0; i < n; i += width) s += exponential(load(x + i, n - i, minus_infinity) - m);
  return m + std::log(total(s));
}

CLEARHEAD_CLONES void softmax_pullback(const Real* p, const Real* dp, Real* dx, int64_t n) {
  const Real d = dot(p, dp, n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = p[i] * (dp[i] - d);
}

// What `panel` destinations first, first + 1, ... say to source j: those before j do not see it.
template <bool diagonal>
[[gnu::always_inline]] inline Lanes seen(const Real* row, int v, int64_t before, Real unseen) {
  const Lanes x = load(row + v * width);
  return diagonal ? first_lanes(before - v * width, all(unseen), x) : x;
}

// Calls f(row, before, diagonal) for each row of [first + panel, panel]. All rows before the last `panel` are seen by
// every destination, and need no mask.
[[gnu::always_inline]] inline void each_source(int64_t first, const auto& f) {
  for (int64_t j = 0; j < first; ++j) f(j * panel, 0, std::false_type());
  for (int64_t j = first; j < first + panel; ++j) f(j * panel, j - first, std::true_type());
}

CLEARHEAD_CLONES void attention_columns(Real* s, int64_t first, Real* most, Real* inverse) {
  constexpr int vectors = panel / width;
  Lanes m[vectors], sum[vectors] = {};
  for (Lanes& x : m) x = all(minus_infinity);
  each_source(first, [&](int64_t row, int64_t before, auto diagonal) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const Lanes x = seen<diagonal.value>(s + row, v, before, minus_infinity);
      m[v] = m[v] > x ? m[v] : x;
    }
  });
  each_source(first, [&](int64_t row, int64_t before, auto diagonal) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const Lanes e = exponential(seen<diagonal.value>(s + row, v, before, minus_infinity) - m[v]);
      store(s + row + v * width, e);
      sum[v] += e;
    }
  });
  for (int v = 0; v < vectors; ++v) {
    store(most + v * width, m[v]);
    store(inverse + v * width, 1 / sum[v]);
  }
}

CLEARHEAD_CLONES void attention_columns_pullback(Real* s, Real* dp, int64_t first, const Real* most,
                                                 const Real* inverse, const Real* d, Real factor) {
  each_source(first, [&](int64_t row, int64_t before, auto diagonal) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int v = 0; v < panel / width; ++v) {
      const int64_t at = v * width;
      const Lanes p = exponential(seen<diagonal.value>(s + row, v, before, minus_infinity) - load(most + at)) * load(inverse + at);
      const Lanes dp_seen = seen<diagonal.value>(dp + row, v, before, 0);
      store(s + row + at, p);
      store(dp + row + at, p * (dp_seen - load(d + at)) * factor);
    }
  });
}

CLEARHEAD_CLONES void adam(const AdamStep& c, const Real* grad, Real grad_scale, Real* m, Real* v, Real* w, int64_t n) {
  const AdamStep k = c;  // a copy that the stores below cannot alias
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const Real g = grad[i] * grad_scale;
    m[i] = k.beta1 * m[i] + (1 - k.beta1) * g;
    v[i] = k.beta2 * v[i] + (1 - k.beta2) * g * g;
    const Real update = m[i] * k.correction1 / (std::sqrt(v[i] * k.correction2) + k.eps);
    w[i] -= k.lr * (update + k.decay * w[i]);
  }
}

}  // namespace clearhead::inline CLEARHEAD_REAL::hot
