// The hot loops, for vectors of CLEARHEAD_VECTOR_BYTES. hot.cpp includes this file once for each instruction set.
//
// Lanes are numbers side by side, as many as a register of the instruction set holds. Sums are kept per lane and added
// up as a tree in the end, so that neighbouring additions do not wait for each other; a row's remainder is padded.
typedef Real Lanes __attribute__((vector_size(CLEARHEAD_VECTOR_BYTES)));
typedef std::conditional_t<sizeof(Real) == 4, int32_t, int64_t> Index
    __attribute__((vector_size(CLEARHEAD_VECTOR_BYTES)));
constexpr int width = sizeof(Lanes) / sizeof(Real);

inline Lanes all(Real x) { return x - Lanes{}; }

inline Lanes load(const Real* x) {
  Lanes v;
  std::memcpy(&v, x, sizeof v);
  return v;
}
inline void store(Real* x, const Lanes& v) { std::memcpy(x, &v, sizeof v); }

// Only n numbers, if that is less than a vector.
inline Lanes load(const Real* x, int64_t n, Real padding) {
  if (n >= width) [[likely]]
    return load(x);
  Lanes v = all(padding);
  std::memcpy(&v, x, size_t(n) * sizeof(Real));
  return v;
}
inline void store(Real* x, int64_t n, const Lanes& v) {
  std::memcpy(x, &v, n >= width ? sizeof v : size_t(n) * sizeof(Real));
}

// The first n lanes of a, the others of b.
inline Lanes first_lanes(int64_t n, const Lanes& a, const Lanes& b) {
  Lanes index = {};
  for (int lane = 0; lane < width; ++lane) index[lane] = Real(lane);
  return index < Real(n) ? a : b;
}

// The sum or the maximum of all lanes, in every lane: of a vector and of itself moved by half its width, around the
// end, then of the result and itself moved by a quarter, and so on.
template <bool add, int by = width / 2>
inline Lanes fold(const Lanes& v) {
  if constexpr (by == 0) {
    return v;
  } else {
    Index from = {};
    for (int lane = 0; lane < width; ++lane) from[lane] = (lane + by) % width;
    const Lanes w = __builtin_shuffle(v, from);
    return fold<add, by / 2>(add ? v + w : (v > w ? v : w));
  }
}
inline Real total(const Lanes& v) { return fold<true>(v)[0]; }
inline Real largest(const Lanes& v) { return fold<false>(v)[0]; }

// exp x = 2^n * e^r with n = round(x / ln 2) and |r| <= ln 2 / 2, where the series to r^7 is exact to float precision.
// Adding 1.5 * 2^23 + 127 rounds to an integer and leaves n + 127 in the low bits, from where a shift puts it into the
// exponent. ln 2 is subtracted in two parts so that n * (upper part) is exact. From n = 128 on (x > 88.37) that exponent
// is infinity's.
#ifndef CLEARHEAD_DOUBLE
typedef uint32_t Bits __attribute__((vector_size(CLEARHEAD_VECTOR_BYTES)));

inline Lanes exponential(Lanes x) {
  const Lanes clamped = x > 89.f ? all(89.f) : x;
  const Lanes shifted = clamped * 1.44269504f + 12583039.f, n = shifted - 12583039.f;
  const Lanes r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  Lanes p = r * (1.f / 5040) + 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + .5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  const Lanes power = Lanes(Bits(shifted) << 23);
  return x < -87.f ? Lanes{} : p * power;
}
#else
inline Lanes exponential(Lanes x) {
  for (int64_t i = 0; i < width; ++i) x[i] = std::exp(x[i]);
  return x;
}
#endif

constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();

// (A NaN is passed over here, and found by the sum that follows.)
Real max(const Real* x, int64_t n) {
  Lanes m = all(minus_infinity);
  for (int64_t i = 0; i < n; i += width) {
    const Lanes v = load(x + i, n - i, minus_infinity);
    m = m > v ? m : v;
  }
  return largest(m);
}

Real sum(const Real* x, int64_t n) {
  Lanes s = {};
  for (int64_t i = 0; i < n; i += width) s += load(x + i, n - i, 0);
  return total(s);
}

Real dot(const Real* x, const Real* y, int64_t n) {
  Lanes s = {};
  for (int64_t i = 0; i < n; i += width) s += load(x + i, n - i, 0) * load(y + i, n - i, 0);
  return total(s);
}

double sum_of_squares(const Real* x, int64_t n) {
  double s = 0;
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) s += double(x[i]) * double(x[i]);
  return s;
}

void add(const Real* x, const Real* y, Real* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

void scale(Real* x, Real factor, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

Real exp_and_sum(Real* x, Real shift, int64_t n) {
  Lanes s = {};
  for (int64_t i = 0; i < n; i += width) {
    const Lanes e = exponential(load(x + i, n - i, minus_infinity) - shift);
    store(x + i, n - i, e);
    s += e;
  }
  return total(s);
}

Real log_sum_exp(const Real* x, int64_t n) {
  const Real m = max(x, n);
  Lanes s = {};
  for (int64_t i = 0; i < n; i += width) s += exponential(load(x + i, n - i, minus_infinity) - m);
  return m + std::log(total(s));
}

void softmax_pullback(const Real* p, const Real* dp, Real* dx, int64_t n) {
  const Real d = dot(p, dp, n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = p[i] * (dp[i] - d);
}

// What `panel` destinations first, first + 1, ... say to source j: those before j do not see it.
template <bool diagonal>
inline Lanes seen(const Real* row, int v, int64_t before, Real unseen) {
  const Lanes x = load(row + v * width);
  return diagonal ? first_lanes(before - v * width, all(unseen), x) : x;
}

// Calls f(row, before, diagonal) for each row of [first + panel, panel]. All rows before the last `panel` are seen by
// every destination, and need no mask.
inline void each_source(int64_t first, const auto& f) {
  for (int64_t j = 0; j < first; ++j) f(j * panel, 0, std::false_type());
  for (int64_t j = first; j < first + panel; ++j) f(j * panel, j - first, std::true_type());
}

void attention_columns(Real* s, int64_t first, Real* most, Real* inverse) {
  constexpr int vectors = panel / width;
  Lanes m[vectors], sum[vectors] = {};
  for (Lanes& x : m) x = all(minus_infinity);
  each_source(first, [&](int64_t row, int64_t before, auto diagonal) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const Lanes x = seen<diagonal.value>(s + row, v, before, minus_infinity);
      m[v] = m[v] > x ? m[v] : x;
    }
  });
  each_source(first, [&](int64_t row, int64_t before, auto diagonal) {
#pragma GCC unroll 8
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

void attention_columns_pullback(Real* s, Real* dp, int64_t first, const Real* most, const Real* inverse, Real factor) {
  constexpr int vectors = panel / width;
  Lanes d[vectors] = {};
  each_source(first, [&](int64_t row, int64_t before, auto diagonal) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const int64_t at = v * width;
      const Lanes p =
          exponential(seen<diagonal.value>(s + row, v, before, minus_infinity) - load(most + at)) * load(inverse + at);
      store(s + row + at, p);
      d[v] += p * seen<diagonal.value>(dp + row, v, before, 0);
    }
  });
  each_source(first, [&](int64_t row, int64_t before, auto diagonal) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const Lanes p = load(s + row + v * width), dp_seen = seen<diagonal.value>(dp + row, v, before, 0);
      store(dp + row + v * width, p * (dp_seen - d[v]) * factor);
    }
  });
}

void adam(const AdamStep& c, const Real* grad, Real grad_scale, Real* m, Real* v, Real* w, int64_t n) {
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
