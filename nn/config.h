// Config: what a Transformer is made of. The defaults are those of the circuit experiments: attention only, no biases,
// no LayerNorm, untied embeddings, positions that only queries and keys can see. Then every decomposition of the model
// into paths is an exact identity (circuits/), and positions cannot leak into what a head moves.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace clearhead {

enum class Positions {
  none,
  learned,      // a trained vector per position, added to the embedding
  sinusoidal,   // fixed sines and cosines of amplitude 1, added to the embedding
  shortformer,  // the same, added to the inputs of W_Q and W_K only
};

struct Config {
  int64_t d_vocab = 64;  // V: tokens are 0 .. V-1
  int64_t d_model = 64;  // width of the residual stream
  int64_t n_layers = 2;  // 0: a bigram table, W_E W_U
  int64_t n_heads = 4;
  int64_t d_head = 16;
  int64_t n_ctx = 64;  // longest sequence
  int64_t d_mlp = 0;   // 0: attention only
  Positions positions = Positions::shortformer;
  bool smeared_keys = false;  // keys mixed with the one before
  bool biases = false;        // b_Q, b_K, b_V, b_O and b_U
  bool layer_norm = false;    // before every attention and MLP, and before the unembedding
  double dropout = 0;         // of what each layer adds to the residual stream, in training only

  // What circuits/ can read: nothing but attention, its queries and keys products of weights.
  bool attention_only() const { return d_mlp == 0 && !biases && !layer_norm && !smeared_keys; }
  void check() const;  // Error if something cannot be built
};

const char* name(Positions p);
Positions positions_from(const std::string& name);  // Error if there is none of that name
nlohmann::json to_json(const Config& c);
Config config_from_json(const nlohmann::json& j);

}  // namespace clearhead
