// The Transformer: tokens -> residual stream -> logits.
//
//     stream   = embed(tokens)                            [B, T, d_model]
//     stream  += attention(stream)                        for every layer: heads read the stream and add to it
//     stream  += mlp(stream)                              if there are MLPs
//     logits   = unembed(stream)                          [B, T, d_vocab]
//
// Nothing is ever overwritten in the stream, so at the end it is the sum of the embedding and of everything that was
// added.
#pragma once

#include "nn/attention.h"

namespace clearhead::inline CLEARHEAD_REAL {

struct Block {
  std::optional<LayerNorm> ln1, ln2;
  Attention attn;
  std::optional<Mlp> mlp;
  FIELDS(ln1, attn, ln2, mlp)

  Block(const Config& c, Rng& rng);
};

struct Transformer {
  Config config;
  Embedding embed;
  std::optional<PosEmbedding> pos_embed;
  std::vector<Block> blocks;
  std::optional<LayerNorm> ln_final;
  Unembedding unembed;
  FIELDS(embed, pos_embed, blocks, ln_final, unembed)

  // The same seed gives the same weights, in float and in double.
  Transformer(const Config& c, uint64_t seed);
  Transformer(const Config& c, Rng rng);

  // tokens [B, T] -> the stream before the unembedding [B, T, d_model]. Dropout happens only if a `drop` stream is
  // given.
  Var stream(const Tokens& tokens, Probe& probe, Rng* drop = nullptr) const;
  Var logits(const Tokens& tokens, Probe& probe) const;  // [B, T, d_vocab]
  Var logits(const Tokens& tokens) const;
  // Mean cross-entropy in nats over the positions whose target [B, T] is not -1.
  Var loss(const Tokens& tokens, const Tokens& targets, Rng* drop = nullptr) const;
  Var loss(const Tokens& tokens, const Tokens& targets, Probe& probe, Rng* drop = nullptr) const;

  void use(Kernel kernel);  // for all layers
  bool fused_loss = true;   // unembedding and cross-entropy as one op
};

// Next-token prediction: inputs are the first T positions of sequences [B, T + 1], targets the last T.
struct Batch {
  Tokens inputs, targets;
};
Batch next_token_batch(const Tokens& sequences);

}  // namespace clearhead::inline CLEARHEAD_REAL
