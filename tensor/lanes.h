// Vectors of numbers, for the hot loops (hot.cpp, tiles.cpp) and nobody else.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tensor/real.h"

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

[[gnu::always_inline]] inline Lanes load(const Real* x) {
  Lanes v;
  std::memcpy(&v, x, sizeof v);
  return v;
}
[[gnu::always_inline]] inline void store(Real* x, const Lanes& v) { std::memcpy(x, &v, sizeof v); }

// Only n numbers, if that is less than a vector.
[[gnu::always_inline]] inline Lanes load(const Real* x, int64_t n, Real padding) {
  if (n >= width) [[likely]]
    return load(x);
  Lanes v = all(padding);
  std::memcpy(&v, x, size_t(n) * sizeof(Real));
  return v;
}

[[gnu::always_inline]] inline void store(Real* x, int64_t n, const Lanes& v) {
  std::memcpy(x, &v, n >= width ? sizeof v : size_t(n) * sizeof(Real));
}

// The first n lanes of a, the others of b.
[[gnu::always_inline]] inline Lanes first_lanes(int64_t n, const Lanes& a, const Lanes& b) {
  Index index = {};
  for (int lane = 0; lane < width; ++lane) index[lane] = lane;
  const Index first = index < decltype(index[0] + 0)(n);
  return first ? a : b;
}

}  // namespace
}  // namespace clearhead::inline CLEARHEAD_REAL::hot
