// Smeared keys (Olsson et al. 2022): each key is mixed with the one before it, by a share that every head learns:
//
//     k'_j = s k_j + (1 - s) k_{j-1},   k'_0 = k_0,   s = sigmoid(alpha) of the head
//
// so that a head can look for what FOLLOWS a token, which otherwise takes a previous-token head in an earlier layer.
//
// Pullback, from g = dk':   dk_j = s g_j + (1 - s) g_{j+1}, where the last key has no g_{j+1}, and all of g_0 goes to k_0;
//                           dalpha = s (1 - s) sum over j >= 1 of g_j . (k_j - k_{j-1}).
#include <cmath>

#include "autograd/op_spec.h"
#include "autograd/ops.h"
#include "tensor/parallel.h"

namespace clearhead::inline CLEARHEAD_REAL {

// k [B, T, H * d_head], alpha [H] -> [B, T, H * d_head].  Saves k and alpha.
Var smear_keys(const Var& k_var, const Var& alpha_var) {
  const Tensor k = k_var.value().contiguous(), alpha = alpha_var.value().contiguous();
  require(k.rank() == 3 && alpha.rank() == 1 && alpha.dim(0) >= 1 && k.dim(2) % alpha.dim(0) == 0, "smear_keys",
          "k must be [B, T, n_heads * d_head] and alpha [n_heads], got ", k.shape(), " and ", alpha.shape());
  const int64_t T = k.dim(1), H = alpha.dim(0), n = k.dim(2), width = n / H, rows = k.dim(0) * T;
  const auto share = [alpha](int64_t head) { return 1 / (1 + std::exp(-alpha.data()[head])); };
  // f(row, offset of the head in this row, s) for every row of every sequence, in order, and every head.
  const auto each = [=](auto f) {
    parallel_for(H, 1, [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h)
        for (int64_t row = 0; row < rows; ++row) f(row, row * n + h * width, share(h));
    });
  };
  Tensor y = Tensor::empty(k.shape());
  Real* const out = y.mut().data();
  each([&, in = k.data()](int64_t row, int64_t at, Real s) {
    for (int64_t i = at; i < at + width; ++i) out[i] = row % T == 0 ? in[i] : s * in[i] + (1 - s) * in[i - n];
  });
  return record("smear_keys", y, {k_var, alpha_var}, [=](const Tensor& dy, Adjoints& d) {
    const Tensor g_tensor = dy.contiguous();
    const Real* const g = g_tensor.data();
    d.add(0, [&] {
      Tensor dk = Tensor::empty(k.shape());
      Real* const sums = dk.mut().data();
      each([&](int64_t row, int64_t at, Real s) {
        const bool first = row % T == 0, last = row % T == T - 1;
        for (int64_t i = at; i < at + width; ++i) sums[i] = (first ? g[i] : s * g[i]) + (last ? 0 : (1 - s) * g[i + n]);
      });
      return dk;
    });
    d.add(1, [&] {
      Tensor dalpha({H});
      Real* const sums = dalpha.mut().data();
      each([&, in = k.data()](int64_t row, int64_t at, Real s) {
        Real dot = 0;
        for (int64_t i = at; row % T > 0 && i < at + width; ++i) dot += g[i] * (in[i] - in[i - n]);
        sums[at % n / width] += s * (1 - s) * dot;
      });
      return dalpha;
    });
  });
}
static const Register smear_spec{{"smear_keys",
                                  [](auto& x) { return smear_keys(x[0], x[1]); },
                                  {{{2, 3, 4}, {2}}, {{1, 1, 2}, {1}}, {{3, 5, 6}, {3}}}}};

}  // namespace clearhead::inline CLEARHEAD_REAL
