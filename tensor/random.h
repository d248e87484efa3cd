// Random numbers that depend on (seed, stream, index) only: a counter-based generator (Philox 4x32-10 of Random123).
//
// Number n of a stream is a hash of n, not the state after n draws. So batch 1,000 of the training data can be made
// without the 999 before it (a resumed run continues exactly where it was), every thread may draw its own, and the
// evaluation data do not change when the initialization draws one number more. Normals are our own Box-Muller:
// std::normal_distribution differs between standard libraries.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace clearhead {

enum class Stream : uint32_t { init = 0, data = 1, eval = 2, dropout = 3, analysis = 4 };

class Rng {
 public:
  explicit Rng(uint64_t seed, Stream stream = Stream::init, uint64_t index = 0)
      : seed_(seed), stream_(stream), index_(index) {}

  uint32_t bits();                              // 32 random bits
  double uniform();                             // [0, 1), 53 bits
  double normal();                              // mean 0, variance 1
  int64_t below(int64_t n);                     // 0 .. n-1, exactly uniform
  std::vector<int32_t> permutation(int32_t n);  // 0 .. n-1 in random order

 private:
  uint64_t seed_;
  Stream stream_;
  uint64_t index_;
  uint32_t block_ = 0;  // four 32-bit words each
  std::array<uint32_t, 4> words_{};
  int left_ = 0;
  double spare_ = 0;
  bool has_spare_ = false;
};

inline namespace CLEARHEAD_REAL {
Tensor random_normal(const Shape& shape, double std, Rng& rng);
}

}  // namespace clearhead
