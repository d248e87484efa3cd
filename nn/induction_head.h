// Two attention heads in a row, wired so that they can do one thing only: complete a pattern that was seen before,
// A B ... A -> B. The first head's output reaches nothing but the keys of the second (K-composition); queries and values
// of both come from the input.
//
//     z = A1 V1 x                what the first head found for every position: after training, the token before it
//     A2 = softmax(Q2 x (K2 z)^T / sqrt(d_k))    the present token looks for a position whose z is like it: the token
//                                                before it is the present one, so it is what followed last time
//     out = A2 V2 x              and that is copied
//
// The first head must know what is before what. It does only with positions in its queries and keys, and without a
// mask it also looks ahead: both are options here, since a widely read article leaves out both, and its module cannot
// do what it is said to do (experiments/copy.cpp).
#pragma once

#include <cmath>

#include "nn/layers.h"

namespace clearhead::inline CLEARHEAD_REAL {

struct InductionHead {
  bool causal;
  double dropout_p;   // of the weights of both patterns, in training
  Linear q1, k1, v1;  // [d_model, d_k], [d_model, d_k], [d_model, d_v]
  Linear q2, k2, v2;  // [d_model, d_k], [d_v, d_k], [d_model, d_v]
  FIELDS(q1, k1, v1, q2, k2, v2)

  InductionHead(int64_t d_model, int64_t d_k, int64_t d_v, Rng& rng, bool mask = true, double dropout = 0)
      : causal(mask),
        dropout_p(dropout),
        q1(d_model, d_k, rng),
        k1(d_model, d_k, rng),
        v1(d_model, d_v, rng),
        q2(d_model, d_k, rng),
        k2(d_v, d_k, rng),
        v2(d_model, d_v, rng) {}

  // x, x_qk [B, T, d_model] -> [B, T, d_v]. x_qk is what the first head's queries and keys are computed from: x, with
  // positions added if it is to know them. Patterns are probed as "pattern1" and "pattern2" [B, 1, T, T].
  Var operator()(const Var& x, const Var& x_qk, Probe& probe, Rng* drop = nullptr) const {
    const In here("induction_head");
    const Var z = probe("z", attend("pattern1", q1(x_qk), k1(x_qk), v1(x), probe, drop));
    return attend("pattern2", q2(x), k2(z), v2(x), probe, drop);
  }

 private:
  Var attend(const char* name, const Var& q, const Var& k, const Var& v, Probe& probe, Rng* drop) const {
    const Var scores = attention_scores(q, k, 1);
    Var pattern = probe(name, causal ? causal_softmax(scores) : softmax(scores));
    if (drop && dropout_p > 0) pattern = dropout(pattern, dropout_p, *drop);
    return merge_heads(matmul(pattern, split_heads(v, 1)));
  }
};

}  // namespace clearhead::inline CLEARHEAD_REAL
