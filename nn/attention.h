// Attention with one set of weights per head, as in the circuits papers. Head h computes a pattern A_h from its input
// and adds  A_h (x W_V[h]) W_O[h]  to the residual stream. The heads do not see each other, and simply add up:
//
//     where to look   pattern A_h = softmax((x' W_Q[h]) (x' W_K[h])^T / sqrt(d_head))     the QK circuit
//     what to move    x W_V[h] W_O[h]                                                     the OV circuit
//
// With `smeared_keys`, a key is mixed with the one before it (autograd/ops/smear.cpp).
// x' is x, with the positions added where they are for queries and keys only (Positions::shortformer).
#pragma once

#include <cmath>

#include "nn/layers.h"

namespace clearhead::inline CLEARHEAD_REAL {

// The definition (five ops; scores and pattern exist) or the fused op (the same numbers, faster; they never do).
enum class Kernel { fused, composed };

struct Attention {
  int64_t n_heads;
  Kernel kernel = Kernel::fused;
  Var W_Q, W_K, W_V;                 // [d_model, n_heads * d_head]: one gemm serves all heads, head h is a column slice
  Var W_O;                           // [n_heads * d_head, d_model]
  std::optional<Var> b_Q, b_K, b_V;  // [n_heads * d_head]
  std::optional<Var> b_O;            // [d_model]
  std::optional<Var> smear;          // [n_heads]: logits of the share of its own that a key keeps
  FIELDS(W_Q, W_K, W_V, W_O, b_Q, b_K, b_V, b_O, smear)

  Attention(const Config& c, Rng& rng) : n_heads(c.n_heads) {
    const int64_t d = c.d_model, all = c.n_heads * c.d_head;
    for (Var* W : {&W_Q, &W_K, &W_V}) *W = normal_param({d, all}, 1 / std::sqrt(double(d)), rng);
    W_O = normal_param({all, d}, 1 / std::sqrt(double(all)), rng);
    if (c.smeared_keys) smear = zero_param({c.n_heads});
    if (!c.biases) return;
    for (auto* b : {&b_Q, &b_K, &b_V}) *b = zero_param({all});
    b_O = zero_param({d});
  }

  // x, x_qk [B, T, d_model] -> [B, T, d_model]. x_qk is what queries and keys are computed from.
  Var operator()(const Var& x, const Var& x_qk, Probe& probe) const {
    const In here("attn");
    const Var q = probe("q", plus_bias(matmul(x_qk, W_Q), b_Q));  // [B, T, n_heads * d_head], like k, v, z
    const Var own = plus_bias(matmul(x_qk, W_K), b_K), k = probe("k", smear ? smear_keys(own, *smear) : own);
    const Var v = probe("v", plus_bias(matmul(x, W_V), b_V));
    const Var z = probe("z", mix(q, k, v, probe));
    return probe("out", plus_bias(matmul(z, W_O), b_O));
  }

 private:
  Var mix(const Var& q, const Var& k, const Var& v, Probe& probe) const {
    if (kernel == Kernel::fused && !probe.wants("scores") && !probe.wants("pattern"))
      return attention_fused(q, k, v, n_heads);
    const Var scores = probe("scores", attention_scores(q, k, n_heads));  // [B, n_heads, T, T]: destination, source
    const Var pattern = probe("pattern", causal_softmax(scores));
    return merge_heads(matmul(pattern, split_heads(v, n_heads)));
  }
};

}  // namespace clearhead::inline CLEARHEAD_REAL
