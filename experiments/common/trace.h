// Trace: one batch through a model, with everything that happened inside.
#pragma once

#include "nn/circuits/paths.h"
#include "nn/transformer.h"

namespace clearhead {

struct Trace {
  Tokens tokens;
  Weights w;  // empty if the model is not attention-only
  Patterns patterns;
  std::vector<Tensor> scores;  // of each layer [B, H, T, T], before the softmax
  Tensor logits;
  Probe probe;  // every activation
};
Trace trace(const Transformer& model, const Tokens& tokens);

// max |a - b| / max |b|
double relative_difference(const Tensor& a, const Tensor& b);

}  // namespace clearhead
