// What the tests of nn/circuits/ share.
#pragma once

#include "nn/transformer.h"
#include "tensor/random.h"

using namespace clearhead;

// In double the identities hold to rounding; in float to that of sums of a few hundred products.
const double bound = sizeof(Real) == 8 ? 1e-10 : 2e-4;

inline Tokens random_tokens(int64_t B, int64_t T, int64_t V, uint64_t seed) {
  Rng rng(seed);
  Tokens t(B, T);
  for (int32_t& id : t.ids) id = int32_t(rng.below(V));
  return t;
}

inline Transformer some_model(int64_t layers, Positions positions = Positions::shortformer) {
  Config c;
  c.d_vocab = 11, c.d_model = 24, c.n_layers = layers, c.n_heads = 3, c.d_head = 5, c.n_ctx = 13;
  c.positions = positions;
  return Transformer(c, 3);
}
