// The small layers: Linear, Embedding, PosEmbedding, LayerNorm, Mlp, Unembedding. Each is a struct with its weights,
// FIELDS, a constructor that initializes them, and operator(). Row vectors on the left: y = x W + b.
//
// Initialization. Embeddings have unit variance per coordinate, so that a token's direction is as large as the
// sinusoids of its position, and neither drowns the other in a query or key: with std 1/sqrt(d_model), as many
// codebases have it, the induction circuit forms twenty times later. Weights have std 1/sqrt(fan in), which keeps
// variances; W_U half of that, for small logits at the start.
#pragma once

#include <cmath>
#include <optional>

#include "autograd/ops.h"
#include "nn/config.h"
#include "nn/fields.h"
#include "nn/probe.h"

namespace clearhead::inline CLEARHEAD_REAL {

inline Var normal_param(const Shape& shape, double std, Rng& rng) { return Var::param(random_normal(shape, std, rng)); }
inline Var zero_param(const Shape& shape) { return Var::param(Tensor(shape)); }
inline Var plus_bias(const Var& x, const std::optional<Var>& b) { return b ? x + expand(*b, x.shape()) : x; }

// x [.., n] -> [.., m]
struct Linear {
  Var W;                 // [n, m]
  std::optional<Var> b;  // [m]
  FIELDS(W, b)

  Linear(int64_t n, int64_t m, Rng& rng, bool bias = true) : W(normal_param({n, m}, 1 / std::sqrt(double(n)), rng)) {
    if (bias) b = zero_param({m});
  }
  Var operator()(const Var& x) const { return plus_bias(matmul(x, W), b); }
};

// tokens [B, T] -> [B, T, d_model]
struct Embedding {
  Var W_E;  // [d_vocab, d_model]
  FIELDS(W_E)

  Embedding(const Config& c, Rng& rng) : W_E(normal_param({c.d_vocab, c.d_model}, 1, rng)) {}
  Var operator()(const Tokens& tokens) const { return embedding(W_E, tokens); }
};

// B, T -> [B, T, d_model], the same for every sequence
struct PosEmbedding {
  Var W_pos;  // [n_ctx, d_model]: trained, or a constant
  FIELDS(W_pos)

  PosEmbedding(const Config& c, Rng& rng);
  Var operator()(int64_t B, int64_t T) const { return expand(narrow(W_pos, 0, 0, T), {B, T, W_pos.dim(1)}); }
};
Tensor sinusoids(int64_t n_ctx, int64_t d_model);  // [n_ctx, d_model]

// x [.., d_model] -> rows of mean 0 and variance 1, times w, plus b
struct LayerNorm {
  Var w, b;  // [d_model]
  FIELDS(w, b)

  explicit LayerNorm(int64_t d_model) : w(Var::param(Tensor({d_model}, 1))), b(zero_param({d_model})) {}
  Var operator()(const Var& x) const { return layer_norm_fused(x, w, b); }
};

// x [B, T, d_model] -> gelu(x W_in + b_in) W_out + b_out
struct Mlp {
  Var W_in, b_in;    // [d_model, d_mlp], [d_mlp]
  Var W_out, b_out;  // [d_mlp, d_model], [d_model]
  FIELDS(W_in, b_in, W_out, b_out)

  Mlp(const Config& c, Rng& rng)
      : W_in(normal_param({c.d_model, c.d_mlp}, 1 / std::sqrt(double(c.d_model)), rng)),
        b_in(zero_param({c.d_mlp})),
        W_out(normal_param({c.d_mlp, c.d_model}, 1 / std::sqrt(double(c.d_mlp)), rng)),
        b_out(zero_param({c.d_model})) {}
  Var operator()(const Var& x, Probe& probe) const {
    const In here("mlp");
    const Var post = probe("post", gelu(plus_bias(matmul(x, W_in), b_in)));
    return probe("out", plus_bias(matmul(post, W_out), b_out));
  }
};

// x [B, T, d_model] -> logits [B, T, d_vocab], or straight to the loss
struct Unembedding {
  Var W_U;                 // [d_model, d_vocab]
  std::optional<Var> b_U;  // [d_vocab]
  FIELDS(W_U, b_U)

  Unembedding(const Config& c, Rng& rng)
      : W_U(normal_param({c.d_model, c.d_vocab}, 0.5 / std::sqrt(double(c.d_model)), rng)) {
    if (c.biases) b_U = zero_param({c.d_vocab});
  }
  Var operator()(const Var& x) const { return plus_bias(matmul(x, W_U), b_U); }
  Var loss(const Var& x, const Tokens& targets, bool fused) const {
    if (b_U || !fused) return cross_entropy((*this)(x), targets);
    return unembed_cross_entropy_fused(x, W_U, targets);
  }
};

}  // namespace clearhead::inline CLEARHEAD_REAL
