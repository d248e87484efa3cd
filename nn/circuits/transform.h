// Models rewritten without a change: other weights, the same function. What these freedoms change in the weights means
// nothing; what they leave (QK, OV, and the products along a path) can be read.
#pragma once

#include "nn/circuits/circuits.h"
#include "nn/transformer.h"

namespace clearhead::inline CLEARHEAD_REAL {

Tensor random_orthogonal(int64_t n, Rng& rng);

// Another basis for the stream: x O for an orthogonal O [d_model, d_model].
Weights rotate_stream(const Weights& w, const Tensor& O);
// Another basis inside every head: W_Q R, W_K R^-T, W_V S, S^-1 W_O for random invertible R and S.
Weights change_heads(const Weights& w, Rng& rng);

// Biases become weights of one more dimension of the stream that is always 1 (Elhage et al. 2021): the result has
// d_model and d_head one larger, no biases, and the same logits. b_Q, b_K, b_V and b_U are the rows that read the 1.
// b_O is what the first head moves from the 1: its attention sums to 1, so it always arrives whole. Error with
// LayerNorm or an MLP.
Weights fold_biases(const Transformer& model);

// LayerNorm is centring, scaling by 1 / |x|, gain and bias. The gain and bias go into the weights that read its output,
// centring into those that write to the stream, and only the scale stays, which depends on the input and cannot be
// folded. The result has layer_norm and biases, with all gains 1 and LayerNorm biases 0; its logits, up to a constant
// per position, are the same. Error for an MLP (its b_in would be the only other reader) and for shortformer positions,
// which come after the LayerNorm.
Transformer fold_layer_norm(const Transformer& model);

// y = x W normalized with the statistics that BatchNorm keeps for evaluation, (y - mean) / sd * gain + bias, is one linear
// map x W' + b'.
struct BatchNorm {
  Tensor mean, sd, gain, bias;               // [m]
  Tensor operator()(const Tensor& y) const;  // [n, m]
};
struct Affine {
  Tensor W, b;                               // [k, m], [m]
  Tensor operator()(const Tensor& x) const;  // [n, k]
};
Affine fold_batch_norm(const Tensor& W, const BatchNorm& norm);

// A new model in which every weight has noise added, also biases and gains, which otherwise start as 0 and 1 and would
// hide what becomes of them.
Transformer noisy_model(const Config& c, uint64_t seed, double std = 0.2);

}  // namespace clearhead::inline CLEARHEAD_REAL
