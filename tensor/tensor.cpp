#include "tensor/tensor.h"

#include <algorithm>

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

// Copies `t` in row-major order. The last axis is the inner loop; an odometer counts the others.
void copy_out(const Tensor& t, Real* out) {
  const Shape& shape = t.shape();
  if (t.is_contiguous()) {
    std::copy_n(t.data(), t.numel(), out);
    return;
  }
  const int last = t.rank() - 1;
  const int64_t n = shape[last], step = t.stride(last);
  std::array<int64_t, Shape::max_rank> index{};
  const Real* row = t.data();
  for (int64_t left = t.numel() / n; left > 0; --left, out += n) {
    for (int64_t j = 0; j < n; ++j) out[j] = row[j * step];
    for (int axis = last - 1; axis >= 0; --axis) {
      row += t.stride(axis);
      if (++index[size_t(axis)] < shape[axis]) break;
      row -= t.stride(axis) * shape[axis];
      index[size_t(axis)] = 0;
    }
  }
}

}  // namespace

Tensor Tensor::empty(Shape shape) {
  return Tensor(std::make_shared<Storage>(shape.numel()), shape, contiguous_strides(shape), 0);
}

Tensor::Tensor(Shape shape, Real fill) : Tensor(empty(shape)) { std::ranges::fill(mut(), fill); }

Tensor Tensor::from(Shape shape, const std::vector<double>& values) {
  require(int64_t(values.size()) == shape.numel(), "Tensor::from", "shape ", shape, " has ", shape.numel(),
          " elements, got ", values.size(), " values");
  Tensor t = empty(shape);
  std::ranges::transform(values, t.mut().begin(), [](double v) { return Real(v); });
  return t;
}

Tensor Tensor::transpose(int a, int b) const {
  require(rank() >= 2, "transpose", "needs at least two dimensions, got ", shape_);
  a = shape_.axis(a), b = shape_.axis(b);
  Tensor t = *this;
  t.shape_ = shape_.with(a, dim(b)).with(b, dim(a));
  std::swap(t.strides_[size_t(a)], t.strides_[size_t(b)]);
  return t;
}

Tensor Tensor::permute(const std::vector<int>& axes) const {
  require(int(axes.size()) == rank(), "permute", "got ", axes.size(), " axes for ", shape_);
  Tensor t = *this;
  unsigned seen = 0;
  int to = 0;
  for (int axis : axes) {
    const int from = shape_.axis(axis);
    require(!(seen >> from & 1u), "permute", "axis ", axis, " appears twice, shape ", shape_);
    seen |= 1u << from;
    t.shape_ = t.shape_.with(to, dim(from));
    t.strides_[size_t(to++)] = strides_[size_t(from)];
  }
  return t;
}

Tensor Tensor::narrow(int axis, int64_t start, int64_t length) const {
  axis = shape_.axis(axis);
  require(start >= 0 && length >= 1 && start + length <= dim(axis), "narrow", "[", start, ", ", start + length,
          ") is not inside axis ", axis, " of ", shape_);
  Tensor t = *this;
  t.shape_ = shape_.with(axis, length);
  t.offset_ += start * stride(axis);
  return t;
}

Tensor Tensor::select(int axis, int64_t index) const {
  axis = shape_.axis(axis);
  const Tensor one = narrow(axis, index, 1);
  std::array<int64_t, Shape::max_rank> dims{};
  Strides strides{};
  size_t n = 0;
  for (int i = 0; i < rank(); ++i)
    if (i != axis) dims[n] = dim(i), strides[n++] = stride(i);
  return Tensor(storage_, Shape(std::span<const int64_t>(dims.data(), n)), strides, one.offset_);
}

Tensor Tensor::expand(const Shape& to) const {
  const int extra = to.rank() - rank();
  require(extra >= 0, "expand", "cannot drop dimensions: from ", shape_, " to ", to);
  Tensor t(storage_, to, {}, offset_);
  for (int i = 0; i < rank(); ++i) {
    const int64_t from = dim(i), target = to[i + extra];
    require(from == target || from == 1, "expand", "only dimensions of size 1 can be repeated: from ", shape_, " to ",
            to);
    t.strides_[size_t(i + extra)] = from == target ? stride(i) : 0;
  }
  return t;
}

Tensor Tensor::reshape(std::initializer_list<int64_t> dims) const {
  std::vector<int64_t> d(dims);
  int64_t known = 1, unknown = -1;
  for (size_t i = 0; i < d.size(); ++i) {
    if (d[i] != -1) {
      known *= d[i];
      continue;
    }
    require(unknown < 0, "reshape", "only one dimension can be -1");
    unknown = int64_t(i);
  }
  if (unknown >= 0) {
    require(known > 0 && numel() % known == 0, "reshape", shape_, " has ", numel(), " elements, not a multiple of ",
            known);
    d[size_t(unknown)] = numel() / known;
  }
  return reshape(Shape(d));
}

// A view exists if every group of merged axes is evenly spaced. Walk both shapes from the back, and match products.
Tensor Tensor::reshape(const Shape& to) const {
  require(to.numel() == numel(), "reshape", shape_, " has ", numel(), " elements, ", to, " has ", to.numel());
  Strides strides{};
  int j = to.rank() - 1;
  int64_t step = 1, room = 1;  // the current group: distance between neighbours, and how many elements are left in it
  int i = rank() - 1;
  for (; j >= 0; --j) {
    if (to[j] == 1) {
      strides[size_t(j)] = step;
      continue;
    }
    if (room == 1) {  // open the next group of source axes, and merge what can be merged
      while (i >= 0 && dim(i) == 1) --i;
      step = stride(i), room = dim(i);
      for (--i; i >= 0 && (dim(i) == 1 || stride(i) == step * room); --i) room *= dim(i);
    }
    if (room % to[j] != 0) return contiguous().reshape(to);
    strides[size_t(j)] = step;
    step *= to[j], room /= to[j];
  }
  return Tensor(storage_, to, strides, offset_);
}

bool Tensor::is_contiguous() const {
  int64_t step = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (dim(i) != 1 && stride(i) != step) return false;
    step *= dim(i);
  }
  return true;
}

Tensor Tensor::contiguous() const { return defined() && is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  require(defined(), "tensor", "undefined: it has no shape and no numbers");
  Tensor t = empty(shape_);
  copy_out(*this, t.mut().data());
  return t;
}

std::span<const Real> Tensor::flat() const {
  require(defined(), "tensor", "undefined: it has no shape and no numbers");
  require(is_contiguous(), "flat", "needs a contiguous tensor, ", shape_,
          " is a strided view; call contiguous() first");
  return {data(), size_t(numel())};
}

std::span<Real> Tensor::mut() {
  require(defined(), "tensor", "undefined: it has no shape and no numbers");
  require(is_contiguous(), "mut", "needs a contiguous tensor, ", shape_, " is a strided view; write to a clone()");
  storage_->bump();
  return {storage_->data() + offset_, size_t(numel())};
}

Real Tensor::item() const {
  require(defined() && numel() == 1, "item", "needs exactly one element, the shape is ", shape_);
  return *data();
}

Real Tensor::at(std::initializer_list<int64_t> index) const {
  require(defined(), "tensor", "undefined: it has no shape and no numbers");
  require(int(index.size()) == rank(), "at", "got ", index.size(), " indices for ", shape_);
  int64_t offset = 0;
  int axis = 0;
  for (int64_t i : index) {
    require(i >= 0 && i < dim(axis), "at", "index ", i, " is outside axis ", axis, " of ", shape_);
    offset += i * stride(axis++);
  }
  return data()[offset];
}

}  // namespace clearhead::inline CLEARHEAD_REAL
