#include "tensor/hot.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

// The loader's choice runs before the sanitizers are ready, so they get the baseline.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define CLEARHEAD_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define CLEARHEAD_CLONES
#endif

namespace clearhead::inline CLEARHEAD_REAL::hot {
namespace {

// Sixteen floats (eight doubles) side by side: one register with AVX-512, two with AVX2, four otherwise. Sums are kept
// per lane and added up as a tree in the end, so that neighbouring additions do not wait for each other; a row's
// remainder is padded to full lanes. The order of all additions is the same on every machine.
typedef Real Lanes __attribute__((vector_size(64)));
typedef std::conditional_t<sizeof(Real) == 4, int32_t, int64_t> Index __attribute__((vector_size(64)));
constexpr int64_t width = sizeof(Lanes) / sizeof(Real);

[[gnu::always_inline]] inline Lanes all(Real x) { return x - Lanes{}; }

[[gnu::always_inline]] inline Lanes load(const Real* x, int64_t n, Real padding) {
  if (n >= width) [[likely]] {
    Lanes v;
    std::memcpy(&v, x, sizeof v);
    return v;
  }
  Lanes v = all(padding);
  std::memcpy(&v, x, size_t(n) * sizeof(Real));
  return v;
}

[[gnu::always_inline]] inline void store(Real* x, int64_t n, const Lanes& v) {
  std::memcpy(x, &v, n >= width ? sizeof v : size_t(n) * sizeof(Real));
}

// The first `seen` of n numbers, from i on: lanes beyond `seen` are padding. Reads up to n, so that a row that
// continues behind `seen` needs no partial load.
[[gnu::always_inline]] inline Lanes load_seen(const Real* x, int64_t i, int64_t seen, int64_t n, Real padding) {
  Lanes index = {};
  for (int64_t lane = 0; lane < width; ++lane) index[lane] = Real(lane);
  return index < Real(seen - i) ? load(x + i, n - i, padding) : all(padding);
}

// All lanes moved by `by`, around the end. Adding a vector to itself moved by half its width, by a quarter, ... gives
// the total in every lane.
template <int by>
[[gnu::always_inline]] inline Lanes moved(const Lanes& v) {
  Index from = {};
  for (int lane = 0; lane < width; ++lane) from[lane] = (lane + by) % int(width);
  return __builtin_shuffle(v, from);
}

// [width, width], by exchanging the off-diagonal halves of the square, then those of its quarters, and so on.
template <int half>
[[gnu::always_inline]] inline void exchange(Lanes* row) {
  Index upper = {}, lower = {};  // lanes 0 .. width-1 are those of the first operand
  for (int lane = 0; lane < width; ++lane) {
    upper[lane] = lane & half ? int(width) + lane - half : lane;
    lower[lane] = lane & half ? int(width) + lane : lane + half;
  }
  for (int i = 0; i < width; ++i) {
    if (i & half) continue;
    const Lanes a = row[i], b = row[i + half];
    row[i] = __builtin_shuffle(a, b, upper);
    row[i + half] = __builtin_shuffle(a, b, lower);
  }
}

[[gnu::always_inline]] inline void transpose_square(const Real* x, int64_t ld, Real* out, int64_t out_ld) {
  Lanes row[width];
  for (int64_t i = 0; i < width; ++i) std::memcpy(&row[i], x + i * ld, sizeof(Lanes));
  if constexpr (width == 16) exchange<8>(row);
  exchange<4>(row);
  exchange<2>(row);
  exchange<1>(row);
  for (int64_t i = 0; i < width; ++i) std::memcpy(out + i * out_ld, &row[i], sizeof(Lanes));
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

CLEARHEAD_CLONES void attention_rows(Real* s, int64_t first, int64_t n, int64_t cols, Real* most, Real* inverse) {
  for (int64_t r = 0; r < n; ++r, s += cols) {
    most[r] = row_max(s, first + r + 1, cols);
    inverse[r] = 1 / row_exp(s, most[r], first + r + 1, cols);
  }
}

CLEARHEAD_CLONES void attention_rows_pullback(Real* s, Real* dp, int64_t first, int64_t n, int64_t cols,
                                              const Real* most, const Real* inverse, const Real* d, Real factor) {
  for (int64_t r = 0; r < n; ++r, s += cols, dp += cols)
    for (int64_t i = 0; i < cols; i += width) {
      const Lanes p = exponential(load_seen(s, i, first + r + 1, cols, minus_infinity) - most[r]) * inverse[r];
      store(s + i, cols - i, p);
      store(dp + i, cols - i, p * (load_seen(dp, i, first + r + 1, cols, 0) - d[r]) * factor);
    }
}

CLEARHEAD_CLONES void transpose(const Real* x, int64_t ld, int64_t rows, int64_t cols, Real* out, int64_t out_ld) {
  for (int64_t r = 0; r < rows; r += width)
    for (int64_t c = 0; c < cols; c += width) {
      if (r + width <= rows && c + width <= cols) {
        transpose_square(x + r * ld + c, ld, out + c * out_ld + r, out_ld);
        continue;
      }
      for (int64_t i = r; i < rows && i < r + width; ++i)
        for (int64_t j = c; j < cols && j < c + width; ++j) out[j * out_ld + i] = x[i * ld + j];
    }
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
