#include "tensor/hot.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace clearhead::inline CLEARHEAD_REAL::hot {

// (All headers are included before: what they define inline must not be compiled for a machine that may not be there.)
namespace bytes16 {
#define CLEARHEAD_VECTOR_BYTES 16
#include "tensor/loops.h"
#include "tensor/tiles.h"
#undef CLEARHEAD_VECTOR_BYTES
}  // namespace bytes16

#ifdef __x86_64__
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace bytes32 {
#define CLEARHEAD_VECTOR_BYTES 32
#include "tensor/loops.h"
#include "tensor/tiles.h"
#undef CLEARHEAD_VECTOR_BYTES
}  // namespace bytes32
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
namespace bytes64 {
#define CLEARHEAD_VECTOR_BYTES 64
#include "tensor/loops.h"
#include "tensor/tiles.h"
#undef CLEARHEAD_VECTOR_BYTES
}  // namespace bytes64
#pragma GCC pop_options
#endif

// clang-format off
#define CLEARHEAD_EACH_LOOP(F)                                                                            \
  F(sum) F(dot) F(sum_of_squares) F(add) F(scale) F(max) F(exp_and_sum) F(log_sum_exp) F(softmax_pullback) \
  F(attention_columns) F(attention_columns_pullback) F(product) F(copy) F(transpose) F(adam)
// clang-format on
#define CLEARHEAD_DEFINE(loop) decltype(&bytes16::loop) loop = bytes16::loop;
#define CLEARHEAD_USE_16(loop) loop = bytes16::loop;
#define CLEARHEAD_USE_32(loop) loop = bytes32::loop;
#define CLEARHEAD_USE_64(loop) loop = bytes64::loop;

CLEARHEAD_EACH_LOOP(CLEARHEAD_DEFINE)

bool use_vectors(int bytes) {
  if (bytes == 16) {
    CLEARHEAD_EACH_LOOP(CLEARHEAD_USE_16)
    return true;
  }
#ifdef __x86_64__
  const auto v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const auto v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (bytes == 32 && v3) {
    CLEARHEAD_EACH_LOOP(CLEARHEAD_USE_32)
    return true;
  }
  if (bytes == 64 && v4) {
    CLEARHEAD_EACH_LOOP(CLEARHEAD_USE_64)
    return true;
  }
#endif
  return false;
}

[[maybe_unused]] static const bool widest = use_vectors(64) || use_vectors(32);

}  // namespace clearhead::inline CLEARHEAD_REAL::hot
