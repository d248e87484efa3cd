// Trace: one batch through a model, with everything that happened inside. What the other files here take apart.
#pragma once

#include "nn/circuits/paths.h"
#include "nn/transformer.h"

namespace clearhead::inline CLEARHEAD_REAL {

struct Trace {
  Tokens tokens;
  Weights w;  // empty if the model is not attention-only without biases
  Patterns patterns;
  std::vector<Tensor> scores;  // of each layer [B, H, T, T], before the softmax
  Tensor logits;
  Probe probe;  // every activation
};
Trace trace(const Transformer& model, const Tokens& tokens);

}  // namespace clearhead::inline CLEARHEAD_REAL
