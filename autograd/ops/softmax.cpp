// p = softmax(x):  p_i = e^{x_i} / Z.   dp_i/dx_j = p_i (1[i=j] - p_j),   so   dx_j = p_j (dp_j - sum_i p_i dp_i).
// The values are computed relative to the row's maximum, so that no exponential overflows (tensor/kernels.cpp).
#include <cmath>

#include "autograd/op_spec.h"
#include "autograd/ops.h"
#include "tensor/hot.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {
// Entries that a mask has set to exactly 0 have gradient 0 by the same formula.
Tensor softmax_pullback(const Tensor& p, const Tensor& dp) {
  const int64_t n = p.dim(-1);
  const Real* const probs = p.data();
  return map_rows(dp, [=](int64_t r, Real* row) { hot::softmax_pullback(probs + r * n, row, row, n); });
}
}  // namespace

Var softmax(const Var& x) {
  const Tensor p = softmax(x.value());
  return record("softmax", p, {x},
                [p](const Tensor& dp, Adjoints& d) { d.add(0, [&] { return softmax_pullback(p, dp); }); });
}
static const Register softmax_spec{
    {"softmax", [](auto& x) { return softmax(x[0]); }, {{{2, 5}}, {{1}}, {{2, 2, 3}}, {{3, 1}}}}};

// y_i = x_i - ln Z,   dy_i/dx_j = 1[i=j] - p_j,   so   dx_j = dy_j - p_j sum_i dy_i.   p = e^y is recomputed.
Var log_softmax(const Var& x) {
  const Tensor y = log_softmax(x.value());
  return record("log_softmax", y, {x}, [y](const Tensor& dy, Adjoints& d) {
    d.add(0, [&] {
      const int64_t n = y.dim(-1);
      const Real* const log_p = y.data();
      return map_rows(dy, [=](int64_t r, Real* row) {
        const Real total = hot::sum(row, n);
        for (int64_t j = 0; j < n; ++j) row[j] -= std::exp(log_p[r * n + j]) * total;
      });
    });
  });
}
static const Register log_softmax_spec{
    {"log_softmax", [](auto& x) { return log_softmax(x[0]); }, {{{2, 5}}, {{1}}, {{2, 2, 3}}}}};

Var causal_softmax(const Var& scores) {
  const Tensor p = causal_softmax(scores.value());
  return record("causal_softmax", p, {scores},
                [p](const Tensor& dp, Adjoints& d) { d.add(0, [&] { return softmax_pullback(p, dp); }); });
}
static const Register causal_softmax_spec{
    {"causal_softmax", [](auto& x) { return causal_softmax(x[0]); }, {{{4, 4}}, {{1, 1}}, {{2, 3, 3}}}}};

}  // namespace clearhead::inline CLEARHEAD_REAL
