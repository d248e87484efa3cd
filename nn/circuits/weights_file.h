// Weights out of a model file, ours or one exported from TransformerLens (a safetensors file of its state_dict), whose
// names and axes these are: embed.W_E, pos_embed.W_pos, blocks.0.attn.W_Q|W_K|W_V [n_heads, d_model, d_head] and W_O
// [n_heads, d_head, d_model], unembed.W_U.
#pragma once

#include <string>

#include "nn/circuits/circuits.h"

namespace clearhead::inline CLEARHEAD_REAL {

// `positions` says where W_pos is added, if there is one and the file does not tell (only ours do). Biases are accepted if
// they are zero, masks are passed over. Error, naming the tensor, for an MLP, LayerNorm, a bias, a missing tensor, other
// axes, or a number that is not finite.
Weights load_weights(const std::string& path, Positions positions = Positions::learned);

}  // namespace clearhead::inline CLEARHEAD_REAL
