// Tensor: a cheap handle on shared numbers, seen through a shape.
//
//     element (i, j, ...)  =  storage[offset + i * stride_0 + j * stride_1 + ...]
//
// Copying a Tensor shares the storage; clone() copies the numbers. transpose, permute, narrow and expand only change
// shape, strides and offset: they are views, and matmul reads most views in place (blas.h). mut() is the only way to
// write. It needs contiguity and raises the storage's version, by which autograd notices a write to something it still
// needs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/real.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

namespace clearhead::inline CLEARHEAD_REAL {

class Tensor {
 public:
  Tensor() = default;  // undefined: no shape, no numbers
  explicit Tensor(Shape shape, Real fill = 0);
  static Tensor empty(Shape shape);  // contents undefined: for the output of a kernel
  static Tensor from(Shape shape, const std::vector<double>& values);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int i) const { return shape_[i]; }  // dim(-1) is the last
  int64_t numel() const { return shape_.numel(); }
  int64_t stride(int i) const { return strides_[size_t(shape_.axis(i))]; }

  // Views. reshape is one where the strides allow it and copies otherwise; one dimension may be -1 there (inferred).
  Tensor transpose(int a = -2, int b = -1) const;
  Tensor permute(const std::vector<int>& axes) const;
  Tensor narrow(int axis, int64_t start, int64_t length) const;
  Tensor select(int axis, int64_t index) const;  // narrow to one index and drop the axis
  Tensor expand(const Shape& shape) const;       // repeats dimensions of size 1 (and new leading ones), stride 0
  Tensor reshape(std::initializer_list<int64_t> dims) const;
  Tensor reshape(const Shape& shape) const;

  bool is_contiguous() const;
  Tensor contiguous() const;  // itself, or a row-major copy
  Tensor clone() const;       // always a copy, contiguous

  const Real* data() const { return storage_ ? storage_->data() + offset_ : nullptr; }  // of element (0, 0, ...)
  std::span<const Real> flat() const;  // all elements; requires contiguity
  std::span<Real> mut();               // the same, to write; raises the version
  Real item() const;                   // the value of a one-element tensor
  Real at(std::initializer_list<int64_t> index) const;

  const std::shared_ptr<Storage>& storage() const { return storage_; }
  bool unique() const { return storage_.use_count() == 1; }  // nobody else sees these numbers

 private:
  Tensor(std::shared_ptr<Storage> storage, Shape shape, Strides strides, int64_t offset)
      : storage_(std::move(storage)), shape_(shape), strides_(strides), offset_(offset) {}

  std::shared_ptr<Storage> storage_;
  Shape shape_;
  Strides strides_{};
  int64_t offset_ = 0;
};

}  // namespace clearhead::inline CLEARHEAD_REAL

namespace clearhead {

// Token ids [B, T], plain integers: nothing differentiates through them. Copying copies.
struct Tokens {
  int64_t B = 0, T = 0;
  std::vector<int32_t> ids;  // B * T, row-major

  Tokens() = default;
  Tokens(int64_t batch, int64_t positions) : B(batch), T(positions), ids(size_t(batch * positions)) {}
  int32_t& operator()(int64_t b, int64_t t) { return ids[size_t(b * T + t)]; }
  int32_t operator()(int64_t b, int64_t t) const { return ids[size_t(b * T + t)]; }
  Shape shape() const { return {B, T}; }
};

}  // namespace clearhead
