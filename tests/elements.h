// A tensor as a plain list of numbers, read by its strides.
#pragma once

#include <numeric>

#include "tensor/tensor.h"

using namespace clearhead;

// 0, 1, 2, ...: every element says where it stood.
inline Tensor counting(Shape shape) {
  Tensor t = Tensor::empty(shape);
  std::iota(t.mut().begin(), t.mut().end(), Real(0));
  return t;
}

using Index = std::vector<int64_t>;

// Every index of a shape, in row-major order.
inline std::vector<Index> indices(const Shape& shape) {
  std::vector<Index> all;
  Index index(size_t(shape.rank()), 0);
  for (int64_t n = shape.numel(); n > 0; --n) {
    all.push_back(index);
    for (int axis = shape.rank() - 1; axis >= 0 && ++index[size_t(axis)] == shape[axis]; --axis)
      index[size_t(axis)] = 0;
  }
  return all;
}

inline int64_t address(const Tensor& t, const Index& index) {
  int64_t at = 0;
  for (int axis = 0; axis < t.rank(); ++axis) at += index[size_t(axis)] * t.stride(axis);
  return at;
}

inline std::vector<Real> elements(const Tensor& t) {
  std::vector<Real> values;
  for (const Index& index : indices(t.shape())) values.push_back(t.data()[address(t, index)]);
  return values;
}
