#include "nn/circuits/handmade.h"

#include <cmath>

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

// [rows, cols] with `value` at (row + i, col + i) for i < n: takes n places of the stream to n others.
Tensor copies(int64_t rows, int64_t cols, int64_t row, int64_t col, int64_t n, double value = 1) {
  Tensor t({rows, cols});
  for (int64_t i = 0; i < n; ++i) t.mut()[size_t((row + i) * cols + col + i)] = Real(value);
  return t;
}

}  // namespace

Weights handmade_induction(int64_t V, int64_t n_ctx, double sharpness) {
  require(V >= 1 && n_ctx >= 1, "handmade_induction", "needs at least one token and one position");
  const int64_t mine = 0, before_me = V, answer = 2 * V, position = 3 * V, d = 3 * V + n_ctx, r = std::max(V, n_ctx);
  const double strength = sharpness * std::sqrt(double(r));  // scores are divided by sqrt(d_head)
  Weights w;
  w.W_E = copies(V, d, 0, mine, V);
  w.W_pos = copies(n_ctx, d, 0, position, n_ctx);
  w.W_U = copies(d, V, answer, 0, V, sharpness);
  Head previous, induction;
  previous.W_Q = copies(d, r, position, 0, n_ctx, strength);
  previous.W_K = copies(d, r, position, 1, n_ctx - 1);  // position j answers to j + 1
  previous.W_V = copies(d, r, mine, 0, V);
  previous.W_O = copies(r, d, 0, before_me, V);
  induction.W_Q = copies(d, r, mine, 0, V, strength);
  induction.W_K = copies(d, r, before_me, 0, V);
  induction.W_V = copies(d, r, mine, 0, V);
  induction.W_O = copies(r, d, 0, answer, V);
  w.layers = {{previous}, {induction}};
  return w;
}

}  // namespace clearhead::inline CLEARHEAD_REAL
