// All ops. Each is one function in ops/*.cpp, with its derivation above its pullback and its spec below.
//
// Shapes must match exactly: nothing is broadcast unless `expand` says so (a wrongly broadcast gradient is summed in
// silence). Axes may be negative. Operators + - * and scalar * are short for add, sub, mul and scale.
#pragma once

#include "autograd/var.h"
#include "tensor/random.h"

namespace clearhead::inline CLEARHEAD_REAL {

// ops/arithmetic.cpp: elementwise, equal shapes
Var add(const Var& a, const Var& b);
Var sub(const Var& a, const Var& b);
Var mul(const Var& a, const Var& b);
Var div(const Var& a, const Var& b);
Var scale(const Var& a, Real factor);
Var exp(const Var& x);
Var log(const Var& x);
Var tanh(const Var& x);
Var sigmoid(const Var& x);
Var relu(const Var& x);
Var gelu(const Var& x);  // x Phi(x), exact (by erf)
inline Var operator+(const Var& a, const Var& b) { return add(a, b); }
inline Var operator-(const Var& a, const Var& b) { return sub(a, b); }
inline Var operator*(const Var& a, const Var& b) { return mul(a, b); }
inline Var operator*(Real a, const Var& b) { return scale(b, a); }

// ops/matmul.cpp
Var matmul(const Var& a, const Var& b);  // [..., n, k] @ [k, m] or [..., k, m] -> [..., n, m]

// ops/views.cpp
Var reshape(const Var& x, const Shape& shape);
Var transpose(const Var& x, int a = -2, int b = -1);
Var permute(const Var& x, const std::vector<int>& axes);
Var narrow(const Var& x, int axis, int64_t start, int64_t length);
Var expand(const Var& x, const Shape& shape);  // repeats size-1 and new leading dimensions

// ops/reduce.cpp
Var sum(const Var& x);            // -> []
Var sum(const Var& x, int axis);  // the axis is dropped
Var mean(const Var& x);
Var mean(const Var& x, int axis);

// ops/softmax.cpp: over the last axis
Var softmax(const Var& x);
Var log_softmax(const Var& x);
Var causal_softmax(const Var& scores);  // [.., T, T]: destination i sees sources 0..i

// ops/embedding.cpp
Var embedding(const Var& table, const Tokens& tokens);  // [V, d], [B, T] -> [B, T, d]

// ops/norm.cpp: over the last axis, x [.., d], weight and bias [d]
Var layer_norm(const Var& x, const Var& weight, const Var& bias, Real eps = Real(1e-5));  // definition
Var layer_norm_fused(const Var& x, const Var& weight, const Var& bias, Real eps = Real(1e-5));

// ops/cross_entropy.cpp: mean over the positions whose target is not -1, in nats
Var cross_entropy(const Var& logits, const Tokens& targets);                           // [B, T, V] -> []
Var unembed_cross_entropy(const Var& x, const Var& W_U, const Tokens& targets);        // definition
Var unembed_cross_entropy_fused(const Var& x, const Var& W_U, const Tokens& targets);  // [B, T, d], [d, V] -> []

// ops/dropout.cpp: zeroes with probability p, scales the rest by 1 / (1 - p); which ones is a function of rng alone
Var dropout(const Var& x, double p, Rng& rng);

// ops/attention.cpp: causal, softmax(q k^T / sqrt(d_head)) v for each head; q, k, v and result [B, T, n_heads * d_head]
Var attention(const Var& q, const Var& k, const Var& v, int64_t n_heads);  // definition
Var attention_fused(const Var& q, const Var& k, const Var& v, int64_t n_heads);
Var split_heads(const Var& x, int64_t n_heads);  // [B, T, n_heads * d_head] -> [B, n_heads, T, d_head], a view
Var merge_heads(const Var& x);                   // and back
Var attention_scores(const Var& q, const Var& k, int64_t n_heads);  // -> [B, n_heads, T, T]

// ops/smear.cpp: mixes each key with the one before, by a share per head; k [B, T, n_heads * d_head], alpha [n_heads]
Var smear_keys(const Var& k, const Var& alpha);

}  // namespace clearhead::inline CLEARHEAD_REAL
