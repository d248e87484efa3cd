// LayerNorm: each row is centred and scaled to unit variance, then multiplied by a gain and shifted.
//
//     xhat = (x - mean(x)) / sqrt(var(x) + eps),   y = xhat * w + b
//
// Pullback. With g = dy * w (what arrives at xhat) and s = 1 / sqrt(var + eps): moving x along 1 or along xhat changes
// nothing in xhat, so those two directions are projected out of g:   dx = s (g - mean(g) - xhat mean(g * xhat)).
#include <cmath>

#include "autograd/op_spec.h"
#include "autograd/ops.h"
#include "tensor/hot.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {

// x [.., d], weight and bias [d] -> [.., d]
Var layer_norm(const Var& x, const Var& weight, const Var& bias, Real eps) {
  const Shape row = x.shape(), one = row.with(-1, 1);
  const auto mean_of = [&](const Var& v) { return expand(reshape(mean(v, -1), one), row); };
  const Var centred = x - mean_of(x);
  const Var variance = mean_of(centred * centred) + Var(Tensor(row, eps));
  return centred * exp(Real(-0.5) * log(variance)) * expand(weight, row) + expand(bias, row);
}

Var layer_norm_fused(const Var& x, const Var& weight, const Var& bias, Real eps) {
  const int64_t n = x.dim(-1);
  require(weight.shape() == Shape{n} && bias.shape() == Shape{n}, "layer_norm", "weight ", weight.shape(), " and bias ",
          bias.shape(), " must be [", n, "] for x ", x.shape());
  const Tensor w = weight.value().contiguous(), b = bias.value().contiguous();
  Tensor xhat = Tensor::empty(x.shape()), inv_std = Tensor::empty({x.value().numel() / n});
  Real *const xh = xhat.mut().data(), *const inv = inv_std.mut().data();
  const Tensor y = map_rows(x.value(), [&, n](int64_t r, Real* row) {
    const Real mean = hot::sum(row, n) / Real(n);
    for (int64_t j = 0; j < n; ++j) row[j] -= mean;
    inv[r] = 1 / std::sqrt(hot::dot(row, row, n) / Real(n) + eps);
    for (int64_t j = 0; j < n; ++j) {
      xh[r * n + j] = row[j] * inv[r];
      row[j] = xh[r * n + j] * w.data()[j] + b.data()[j];
    }
  });
  return record("layer_norm_fused", y, {x, weight, bias}, [xhat, inv_std, w](const Tensor& dy, Adjoints& d) {
    const int64_t m = w.numel();
    d.add(0, [&] {
      return map_rows(dy, [&, m](int64_t r, Real* row) {
        const Real* const h = xhat.data() + r * m;
        for (int64_t j = 0; j < m; ++j) row[j] *= w.data()[j];
        const Real mean_g = hot::sum(row, m) / Real(m), mean_gh = hot::dot(row, h, m) / Real(m);
        for (int64_t j = 0; j < m; ++j) row[j] = inv_std.data()[r] * (row[j] - mean_g - h[j] * mean_gh);
      });
    });
    d.add(1, [&] { return sum_to(mul(dy, xhat), w.shape()); });
    d.add(2, [&] { return sum_to(dy, w.shape()); });
  });
}
static const Register layer_norm_spec{{.name = "layer_norm_fused",
                                       .run = [](auto& x) { return layer_norm_fused(x[0], x[1], x[2]); },
                                       .samples = {{{3, 4}, {4}, {4}}, {{2, 1, 5}, {5}, {5}}, {{3}, {3}, {3}}},
                                       .reference = [](auto& x) { return layer_norm(x[0], x[1], x[2]); }}};

}  // namespace clearhead::inline CLEARHEAD_REAL
