#include "tensor/random.h"

#include <Random123/philox.h>

#include <cmath>
#include <numbers>
#include <numeric>

namespace clearhead {

uint32_t Rng::bits() {
  if (left_ == 0) {
    const r123::Philox4x32::ctr_type counter{{block_++, uint32_t(stream_), uint32_t(index_), uint32_t(index_ >> 32)}};
    const r123::Philox4x32::key_type key{{uint32_t(seed_), uint32_t(seed_ >> 32)}};
    const auto hash = r123::Philox4x32{}(counter, key);
    for (size_t i = 0; i < 4; ++i) words_[i] = hash[i];
    left_ = 4;
  }
  return words_[size_t(4 - left_--)];
}

double Rng::uniform() {
  const uint64_t high = bits(), low = bits();
  return double((high << 32 | low) >> 11) * 0x1p-53;
}

// Box-Muller: a point with two normal coordinates has a uniform angle and a radius sqrt(-2 ln U).
double Rng::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2 * std::log(1 - uniform())), angle = 2 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

// The high word of a 32 x 32 product is uniform, but for a few low words, which are drawn again (Lemire 2019).
int64_t Rng::below(int64_t n) {
  require(n >= 1 && n <= int64_t(UINT32_MAX), "Rng::below", "needs 1 <= n < 2^32, got ", n);
  const auto range = uint32_t(n), unfair = uint32_t(-range) % range;
  for (;;) {
    const uint64_t product = uint64_t(bits()) * range;
    if (uint32_t(product) >= unfair) return int64_t(product >> 32);
  }
}

std::vector<int32_t> Rng::permutation(int32_t n) {
  std::vector<int32_t> p(size_t(n), 0);
  std::iota(p.begin(), p.end(), 0);
  for (int32_t i = n - 1; i > 0; --i) std::swap(p[size_t(i)], p[size_t(below(i + 1))]);
  return p;
}

inline namespace CLEARHEAD_REAL {
Tensor random_normal(const Shape& shape, double std, Rng& rng) {
  Tensor t = Tensor::empty(shape);
  for (Real& x : t.mut()) x = Real(std * rng.normal());
  return t;
}
}  // namespace CLEARHEAD_REAL

}  // namespace clearhead
