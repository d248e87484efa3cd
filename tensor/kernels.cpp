#include "tensor/kernels.h"

#include <cmath>
#include <limits>

#include "tensor/hot.h"

namespace clearhead::inline CLEARHEAD_REAL {

namespace {
// How many elements of a tensor come before it repeats, if it is a block that leading expanded axes repeat (as
// positions are, over the batch): such a tensor can be read without a copy. 0 if it is anything else.
int64_t repeated_block(const Tensor& t) {
  int first = 0;
  while (first < t.rank() && t.stride(first) == 0) ++first;
  int64_t block = 1;
  for (int i = t.rank() - 1; i >= first; --i) {
    if (t.stride(i) != block) return 0;
    block *= t.dim(i);
  }
  return first > 0 ? block : 0;
}
}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  require(a.shape() == b.shape(), "add", "shapes differ: a is ", a.shape(), ", b is ", b.shape(),
          " (use expand to repeat a dimension)");
  const int64_t block = repeated_block(b);
  const Tensor x = a.contiguous(), y = block ? b : b.contiguous();
  Tensor out = Tensor::empty(a.shape());
  Real* const sums = out.mut().data();
  parallel_for(a.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {  // up to the next repetition
      const int64_t from = block ? begin % block : begin, n = block ? std::min(end - begin, block - from) : end - begin;
      hot::add(x.data() + begin, y.data() + from, sums + begin, n);
      begin += n;
    }
  });
  return out;
}
Tensor sub(const Tensor& a, const Tensor& b) {
  return zip("sub", a, b, [](Real x, Real y) { return x - y; });
}
Tensor mul(const Tensor& a, const Tensor& b) {
  return zip("mul", a, b, [](Real x, Real y) { return x * y; });
}
Tensor div(const Tensor& a, const Tensor& b) {
  return zip("div", a, b, [](Real x, Real y) { return x / y; });
}
Tensor scale(const Tensor& a, Real factor) {
  return map(a, [factor](Real x) { return factor * x; });
}

void add_into(Tensor& sum, const Tensor& x) {
  require(sum.shape() == x.shape(), "add_into", "shapes differ: ", sum.shape(), " += ", x.shape());
  const Tensor in = x.contiguous();
  const Real* const a = in.data();
  Real* const s = sum.mut().data();
  parallel_for(x.numel(), elementwise_grain,
               [&](int64_t begin, int64_t end) { hot::add(s + begin, a + begin, s + begin, end - begin); });
}

// In row-major order x is [outer, n, inner]: row k of the middle axis is added to the sum, k ascending.
Tensor sum(const Tensor& x, int axis) {
  axis = x.shape().axis(axis);
  const Tensor in = x.contiguous();
  int64_t outer = 1, inner = 1;
  std::vector<int64_t> dims;
  for (int i = 0; i < x.rank(); ++i) {
    if (i < axis) outer *= x.dim(i);
    if (i > axis) inner *= x.dim(i);
    if (i != axis) dims.push_back(x.dim(i));
  }
  const int64_t n = x.dim(axis);
  Tensor out = Tensor::empty(Shape(dims));
  const Real* const a = in.data();
  Real* const y = out.mut().data();
  if (inner == 1) {
    parallel_for(outer, std::max<int64_t>(1, elementwise_grain / n), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) y[o] = hot::sum(a + o * n, n);
    });
    return out;
  }
  for (int64_t o = 0; o < outer; ++o)
    parallel_for(inner, std::max<int64_t>(16, elementwise_grain / n), [&](int64_t begin, int64_t end) {
      const Real* const first = a + o * n * inner;
      Real* const sums = y + o * inner;
      std::copy(first + begin, first + end, sums + begin);
      for (int64_t k = 1; k < n; ++k) hot::add(sums + begin, first + k * inner + begin, sums + begin, end - begin);
    });
  return out;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  const int extra = x.rank() - shape.rank();
  require(extra >= 0, "sum_to", "cannot add dimensions: from ", x.shape(), " to ", shape);
  Tensor t = x;
  for (int i = 0; i < extra; ++i) t = sum(t, 0);
  for (int i = 0; i < shape.rank(); ++i) {
    require(shape[i] == t.dim(i) || shape[i] == 1, "sum_to", "from ", x.shape(), " to ", shape);
    if (shape[i] != t.dim(i)) t = sum(t, i).reshape(t.shape().with(i, 1));
  }
  return t;
}

// Both tensors are [outer, n, inner] in row-major order: x's rows land in consecutive rows of the result.
Tensor pad(const Tensor& x, const Shape& shape, int axis, int64_t start) {
  axis = shape.axis(axis);
  require(x.shape() == shape.with(axis, x.dim(axis)) && start >= 0 && start + x.dim(axis) <= shape[axis], "pad",
          x.shape(), " does not fit at ", start, " of axis ", axis, " of ", shape);
  Tensor out(shape);
  const Tensor in = x.contiguous();
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const int64_t rows = x.dim(axis) * inner;
  Real* const y = out.mut().data();
  for (int64_t o = 0; o < outer; ++o) std::copy_n(in.data() + o * rows, rows, y + (o * shape[axis] + start) * inner);
  return out;
}

double sum_all(const Tensor& x) {
  const Tensor in = x.contiguous();
  const Real* const a = in.data();
  return parallel_sum(x.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
    double s = 0;
    for (int64_t i = begin; i < end; ++i) s += double(a[i]);
    return s;
  });
}

double max_abs_diff(const Tensor& a, const Tensor& b) {
  double worst = 0;
  const Tensor diff = sub(a, b);
  for (Real d : diff.flat())
    worst = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(worst, double(std::abs(d)));
  return worst;
}

double relative_difference(const Tensor& a, const Tensor& b) {
  return max_abs_diff(a, b) / max_abs_diff(b, Tensor(b.shape()));
}

bool all_finite(const Tensor& x) {
  const Tensor in = x.contiguous();
  return std::ranges::all_of(in.flat(), [](Real v) { return std::isfinite(v); });
}

Tensor softmax(const Tensor& x) {
  const int64_t n = x.dim(-1);
  return map_rows(x, [n](int64_t, Real* row) { hot::scale(row, 1 / hot::exp_and_sum(row, hot::max(row, n), n), n); });
}

Tensor log_softmax(const Tensor& x) {
  const int64_t n = x.dim(-1);
  return map_rows(x, [n](int64_t, Real* row) {
    const Real lse = hot::log_sum_exp(row, n);
    for (int64_t j = 0; j < n; ++j) row[j] -= lse;
  });
}

Tensor causal_softmax(const Tensor& scores) {
  require(scores.rank() >= 2 && scores.dim(-1) == scores.dim(-2), "causal_softmax",
          "needs square scores [.., T, T], got ", scores.shape());
  const int64_t T = scores.dim(-1);
  return map_rows(scores, [T](int64_t r, Real* row) {
    const int64_t seen = r % T + 1;
    hot::scale(row, 1 / hot::exp_and_sum(row, hot::max(row, seen), seen), seen);
    std::fill(row + seen, row + T, Real(0));
  });
}

}  // namespace clearhead::inline CLEARHEAD_REAL
