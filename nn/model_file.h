// Models on disk. A model file has TransformerLens's names and axes, so that its users can load it with
// load_state_dict; a checkpoint has everything else that a run needs to go on bit for bit.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "nn/optim.h"
#include "nn/safetensors.h"
#include "nn/transformer.h"

namespace clearhead::inline CLEARHEAD_REAL {

// embed.W_E [d_vocab, d_model], pos_embed.W_pos [n_ctx, d_model], blocks.0.attn.W_Q|W_K|W_V [n_heads, d_model, d_head],
// blocks.0.attn.W_O [n_heads, d_head, d_model], unembed.W_U [d_model, d_vocab], ...; the Config as JSON in the
// metadata.
void save_model(const std::string& path, Transformer model);
Transformer load_model(const std::string& path);

// A checkpoint: all weights and moments as they are, the number of steps done, and the run's own settings. Data and
// dropout need no state: they are functions of (seed, stream, step).
struct Progress {
  int64_t step = 0;
};
void save_checkpoint(const std::string& path, const NamedParams& params, AdamW& adam, const Progress& progress,
                     const nlohmann::json& run);
// Error, naming the first setting that differs, unless two runs' settings are the same. `path` is where `before` was
// found.
void require_same_settings(const std::string& path, const nlohmann::json& before, const nlohmann::json& now);
// Reads it into parameters and an optimizer of the same shapes. Error if it belongs to a run with other settings.
Progress load_checkpoint(const std::string& path, const NamedParams& params, AdamW& adam, const nlohmann::json& run);

}  // namespace clearhead::inline CLEARHEAD_REAL
