// Cross-entropy: the mean over positions of -ln p(target), in nats. A target of -1 is left out of the mean.
//
// For one position with logits l and target t:   loss = ln Z - l_t,   dloss/dl_j = p_j - 1[j = t].
#include <cmath>

#include "autograd/op_spec.h"
#include "autograd/ops.h"
#include "tensor/blas.h"
#include "tensor/hot.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

int64_t count_targets(const char* op, const Shape& x, const Tokens& targets, int64_t V) {
  require(x.rank() == 3 && x[0] == targets.B && x[1] == targets.T, op, "targets are ", targets.shape(), ", x is ", x);
  int64_t n = 0;
  for (size_t i = 0; i < targets.ids.size(); ++i) {
    const int32_t t = targets.ids[i];
    require(t >= -1 && t < V, op, "target ", t, " at [", int64_t(i) / targets.T, ", ", int64_t(i) % targets.T,
            "] is outside the vocabulary 0..", V - 1, " (-1 leaves a position out)");
    n += t >= 0;
  }
  require(n > 0, op, "every target is -1: there is nothing to average");
  return n;
}

// Turns one row of logits into dloss/dlogits, with weight 1/n, and returns the loss of this row.
double loss_and_gradient(Real* row, int32_t target, int64_t V, int64_t n) {
  const Real logit = row[target], most = hot::max(row, V), Z = hot::exp_and_sum(row, most, V);
  hot::scale(row, 1 / (Z * Real(n)), V);
  row[target] -= 1 / Real(n);
  return double(most) + std::log(double(Z)) - double(logit);
}

}  // namespace

// [B, T, V] -> [].  Saves dloss/dlogits.
Var cross_entropy(const Var& logits, const Tokens& targets) {
  const int64_t V = logits.dim(-1), n = count_targets("cross_entropy", logits.shape(), targets, V);
  Tensor dlogits = logits.value().clone();
  Real* const rows = dlogits.mut().data();
  const double loss =
      parallel_sum(targets.B * targets.T, std::max<int64_t>(1, elementwise_grain / V), [&](int64_t begin, int64_t end) {
        double part = 0;
        for (int64_t i = begin; i < end; ++i) {
          if (targets.ids[size_t(i)] >= 0)
            part += loss_and_gradient(rows + i * V, targets.ids[size_t(i)], V, n);
          else
            std::fill_n(rows + i * V, V, Real(0));
        }
        return part;
      });
  return record("cross_entropy", Tensor({}, Real(loss / double(n))), {logits},
                [dlogits](const Tensor& dy, Adjoints& d) { d.add(0, [&] { return scale(dlogits, dy.item()); }); });
}

namespace {
// The textbook form, which the ops above must equal: mean of -log_softmax(logits) at the targets.
Var textbook(const Var& logits, const Tokens& targets) {
  Tensor weight(logits.shape());
  double n = 0;
  for (int64_t i = 0; i < targets.B * targets.T; ++i) n += targets.ids[size_t(i)] >= 0;
  for (int64_t i = 0; i < targets.B * targets.T; ++i)
    if (targets.ids[size_t(i)] >= 0) weight.mut()[size_t(i * logits.dim(-1) + targets.ids[size_t(i)])] = Real(-1 / n);
  return sum(log_softmax(logits) * weight);
}
Tokens sample_targets(const Shape& x, int64_t V) {  // every third position left out
  Tokens t(x[0], x[1]);
  for (size_t i = 0; i < t.ids.size(); ++i) t.ids[i] = i % 3 == 1 ? -1 : int32_t(int64_t(i * 7) % V);
  return t;
}
}  // namespace
static const Register cross_entropy_spec{
    {.name = "cross_entropy",
     .run = [](auto& x) { return cross_entropy(x[0], sample_targets(x[0].shape(), x[0].dim(-1))); },
     .samples = {{{2, 3, 5}}, {{1, 1, 1}}, {{1, 4, 2}}},
     .reference = [](auto& x) { return textbook(x[0], sample_targets(x[0].shape(), x[0].dim(-1))); }}};

// x [B, T, d] @ W_U [d, V] -> logits -> loss.
Var unembed_cross_entropy(const Var& x, const Var& W_U, const Tokens& targets) {
  return cross_entropy(matmul(x, W_U), targets);
}

// The same as one node. With a large vocabulary the logits are the largest thing in a model, so only some rows
// exist at a time, and since nothing but this loss will ever use them, their gradient is pushed on at once:
//
//     dx = dlogits W_U^T,   dW_U = x^T dlogits      saved: dx and dW_U, to be scaled by dL/dloss (usually 1)
Var unembed_cross_entropy_fused(const Var& x_var, const Var& W_U_var, const Tokens& targets) {
  const char* const op = "unembed_cross_entropy";
  const Tensor W_U = W_U_var.value().contiguous();
  require(x_var.value().rank() == 3 && W_U.rank() == 2 && x_var.dim(-1) == W_U.dim(0), op,
          "x must be [B, T, d] and W_U [d, V]: ", x_var.shape(), ", ", W_U.shape());
  const int64_t width = W_U.dim(0), V = W_U.dim(1), rows = targets.B * targets.T;
  const int64_t n = count_targets(op, x_var.shape(), targets, V);
  const Tensor x = x_var.value().reshape({-1, width});
  const bool want_dx = grad_enabled() && x_var.needs_grad(), want_dW = grad_enabled() && W_U_var.needs_grad();
  Tensor dx, dW, W_U_t;  // transposed once for all slices
  if (want_dx) {
    dx = Tensor::empty({rows, width}), W_U_t = Tensor::empty({V, width});
    hot::transpose(W_U.data(), V, width, V, W_U_t.mut().data(), width);
  }
  Real* const dx_out = want_dx ? dx.mut().data() : nullptr;

  // A slice is as many rows as may have a partial dW each; a chunk of them goes from logits to gradients in the cache.
  constexpr int64_t chunk = 512;
  const int64_t slice = std::max(4 * chunk, (int64_t(1) << 21) / V / chunk * chunk);
  if (want_dW) dW = Tensor(W_U.shape());
  double loss = 0;
  for (int64_t first = 0; first < rows; first += slice) {
    const int64_t count = std::min(slice, rows - first), parts = (count + chunk - 1) / chunk;
    const Tensor x_slice = x.narrow(0, first, count).contiguous();
    Tensor partial;
    if (want_dW) partial = Tensor::empty({parts, width, V});
    Real* const partial_dW = want_dW ? partial.mut().data() : nullptr;
    loss += parallel_sum(count, chunk, [&](int64_t begin, int64_t end) {
      Tensor dlogits = Tensor::empty({end - begin, V});
      Real* const l = dlogits.mut().data();
      const Real* const x_rows = x_slice.data() + begin * width;
      gemm(end - begin, V, width, 1, {x_rows, width}, {W_U.data(), V}, 0, l, V);
      double part = 0;
      for (int64_t i = begin; i < end; ++i) {
        const int32_t target = targets.ids[size_t(first + i)];
        Real* const row = l + (i - begin) * V;
        if (target >= 0)
          part += loss_and_gradient(row, target, V, n);
        else
          std::fill_n(row, V, Real(0));
      }
      if (want_dx)
        gemm(end - begin, width, V, 1, {l, V}, {W_U_t.data(), width}, 0, dx_out + (first + begin) * width, width);
      if (want_dW)
        gemm(width, V, end - begin, 1, {x_rows, width, true}, {l, V}, 0, partial_dW + begin / chunk * width * V, V);
      return part;
    });
    if (!want_dW) continue;
    Real* const sum = dW.mut().data();
    parallel_for(width * V, elementwise_grain, [&](int64_t begin, int64_t end) {
      for (int64_t part = 0; part < parts; ++part)
        hot::add(sum + begin, partial_dW + part * width * V + begin, sum + begin, end - begin);
    });
  }
  const auto scaled = [](Tensor& saved, Real factor) {  // moved out, not copied: a pullback runs once
    return factor == 1 ? std::move(saved) : scale(saved, factor);
  };
  return record(op, Tensor({}, Real(loss / double(n))), {x_var, W_U_var},
                [dx, dW, scaled, shape = x_var.shape()](const Tensor& dy, Adjoints& d) mutable {
                  d.add(0, [&] { return scaled(dx, dy.item()).reshape(shape); });
                  d.add(1, [&] { return scaled(dW, dy.item()); });
                });
}
static const Register unembed_spec{
    {.name = "unembed_cross_entropy",
     .run = [](auto& x) { return unembed_cross_entropy_fused(x[0], x[1], sample_targets(x[0].shape(), x[1].dim(-1))); },
     .samples = {{{2, 3, 4}, {4, 5}}, {{1, 1, 1}, {1, 1}}, {{3, 150, 2}, {2, 9000}}},
     .reference =
         [](auto& x) { return unembed_cross_entropy(x[0], x[1], sample_targets(x[0].shape(), x[1].dim(-1))); }}};

}  // namespace clearhead::inline CLEARHEAD_REAL
