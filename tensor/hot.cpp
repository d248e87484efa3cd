#include "tensor/hot.h"

#include <bit>
#include <cmath>

// The loader's choice runs before the sanitizers are ready, so they get the baseline.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define CLEARHEAD_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define CLEARHEAD_CLONES
#endif

namespace clearhead::inline CLEARHEAD_REAL::hot {
namespace {

// exp x = 2^n * e^r with n = round(x / ln 2) and |r| <= ln 2 / 2, where the series to r^7 is exact to float precision.
// Adding 1.5 * 2^23 rounds to an integer and leaves n in the low bits, from where a shift puts it into the exponent.
// ln 2 is subtracted in two parts so that n * (upper part) is exact. From n = 128 on (x > 88.37) that exponent is infinity's.
[[gnu::always_inline]] inline float exponential(float x) {
  const float clamped = x < -87.f ? -87.f : x > 89.f ? 89.f : x;
  const float shifted = clamped * 1.44269504f + 12582912.f, n = shifted - 12582912.f;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.f / 5040;
  p = p * r + 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + .5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  const float power = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) << 23) + (127u << 23));
  return x < -87.f ? 0.f : p * power;
}

[[gnu::always_inline]] inline double exponential(double x) { return std::exp(x); }

}  // namespace

CLEARHEAD_CLONES Real max(const Real* x, int64_t n) {
  Real m = x[0];
#pragma omp simd reduction(max : m)
  for (int64_t i = 0; i < n; ++i) m = x[i] > m ? x[i] : m;
  return m;
}

CLEARHEAD_CLONES Real sum(const Real* x, int64_t n) {
  Real s = 0;
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) s += x[i];
  return s;
}

CLEARHEAD_CLONES Real dot(const Real* x, const Real* y, int64_t n) {
  Real s = 0;
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) s += x[i] * y[i];
  return s;
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

CLEARHEAD_CLONES Real exp_and_sum(Real* x, Real shift, int64_t n) {
  Real s = 0;
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) {
    x[i] = exponential(x[i] - shift);
    s += x[i];
  }
  return s;
}

// Masks by selection: whole vectors of useless exponentials are cheaper than a remainder loop and a fill for each row.
CLEARHEAD_CLONES Real exp_and_sum(Real* x, Real shift, int64_t seen, int64_t n) {
  Real s = 0;
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) {
    x[i] = i < seen ? exponential(x[i] - shift) : Real(0);
    s += x[i];
  }
  return s;
}

CLEARHEAD_CLONES Real log_sum_exp(const Real* x, int64_t n) {
  Real m = x[0], s = 0;
#pragma omp simd reduction(max : m)
  for (int64_t i = 0; i < n; ++i) m = x[i] > m ? x[i] : m;
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) s += exponential(x[i] - m);
  return m + std::log(s);
}

CLEARHEAD_CLONES void softmax_pullback(const Real* p, const Real* dp, Real* dx, int64_t n) {
  Real d = 0;
#pragma omp simd reduction(+ : d)
  for (int64_t i = 0; i < n; ++i) d += p[i] * dp[i];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = p[i] * (dp[i] - d);
}

CLEARHEAD_CLONES void attention_pullback(Real* s, Real* dp, Real lse, Real d, Real scale, int64_t seen, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const Real p = i < seen ? exponential(s[i] - lse) : Real(0);
    s[i] = p;
    dp[i] = i < seen ? p * (dp[i] - d) * scale : Real(0);
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
