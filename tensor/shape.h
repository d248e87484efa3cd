// Shape: up to six dimensions, row-major, the last one running fastest. [] is a scalar (rank 0, one element).
// Every dimension is at least 1: a tensor without elements is a mistake that is best reported where it is made.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

#include "tensor/error.h"

namespace clearhead {

class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) {
    require(dims.size() <= max_rank, "shape", "at most ", max_rank, " dimensions, got ", dims.size());
    for (int64_t d : dims) dims_[size_t(rank_++)] = d;
    for (int64_t d : dims) require(d >= 1, "shape", "every dimension must be at least 1, got ", *this);
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[size_t(axis(i))]; }  // [-1] is the last
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t d : *this) n *= d;
    return n;
  }
  // Turns a possibly negative axis into 0 .. rank-1.
  int axis(int i) const {
    const int a = i < 0 ? i + rank_ : i;
    require(a >= 0 && a < rank_, "shape", "no axis ", i, " in ", *this);
    return a;
  }
  Shape with(int i, int64_t dim) const {  // the same shape with one dimension replaced
    require(dim >= 1, "shape", "every dimension must be at least 1, got ", dim, " for axis ", i, " of ", *this);
    Shape s = *this;
    s.dims_[size_t(axis(i))] = dim;
    return s;
  }

  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  std::span<const int64_t> dims() const { return {begin(), end()}; }

  friend bool operator==(const Shape& a, const Shape& b) { return a.rank_ == b.rank_ && a.dims_ == b.dims_; }
  friend std::ostream& operator<<(std::ostream& out, const Shape& s) {
    out << '[';
    for (int i = 0; i < s.rank_; ++i) out << (i ? ", " : "") << s.dims_[size_t(i)];
    return out << ']';
  }

 private:
  std::array<int64_t, max_rank> dims_{};
  int rank_ = 0;
};

// strides[i]: how many elements further the next index along axis i lies. 0 repeats one element (see Tensor::expand).
using Strides = std::array<int64_t, Shape::max_rank>;

inline Strides contiguous_strides(const Shape& shape) {
  Strides s{};
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    s[size_t(i)] = step;
    step *= shape[i];
  }
  return s;
}

}  // namespace clearhead
