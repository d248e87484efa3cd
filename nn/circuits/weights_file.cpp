#include "nn/circuits/weights_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "nn/safetensors.h"

namespace clearhead::inline CLEARHEAD_REAL {

Weights load_weights(const std::string& path, Positions positions) {
  const TensorFile file = load_tensors(path);
  const In in(path);
  std::set<std::string> used;
  const auto find = [&](const std::string& name, int rank) -> const Tensor& {
    used.insert(name);
    const auto found = file.tensors.find(name);
    require(found != file.tensors.end(), "weights", "there is no ", name);
    require(found->second.rank() == rank, "weights", name, " is ", found->second.shape(), ", expected ", rank,
            " dimensions");
    return found->second;
  };
  Weights w;
  w.positions = positions;
  if (const auto config = file.metadata.find("clearhead.config"); config != file.metadata.end()) {
    const auto j = nlohmann::json::parse(config->second, nullptr, false);
    require(!j.is_discarded(), "weights", "'clearhead.config' is not JSON");
    w.positions = config_from_json(j).positions;
  }
  w.W_E = find("embed.W_E", 2), w.W_U = find("unembed.W_U", 2);
  if (file.tensors.contains("pos_embed.W_pos")) w.W_pos = find("pos_embed.W_pos", 2);
  const int64_t d = w.d_model();
  for (int64_t l = 0; file.tensors.contains("blocks." + std::to_string(l) + ".attn.W_Q"); ++l) {
    const std::string at = "blocks." + std::to_string(l) + ".attn.";
    const Tensor &Q = find(at + "W_Q", 3), &K = find(at + "W_K", 3), &V = find(at + "W_V", 3), &O = find(at + "W_O", 3);
    const int64_t H = Q.dim(0), r = Q.dim(2);
    for (const auto& [name, t] : {std::pair{"W_Q", &Q}, {"W_K", &K}, {"W_V", &V}})
      require(t->shape() == Shape({H, d, r}), "weights", at, name, " is ", t->shape(), ", expected ", Shape({H, d, r}),
              " (heads, d_model, d_head)");
    require(O.shape() == Shape({H, r, d}), "weights", at, "W_O is ", O.shape(), ", expected ", Shape({H, r, d}),
            " (heads, d_head, d_model)");
    std::vector<Head>& heads = w.layers.emplace_back();
    for (int64_t h = 0; h < H; ++h) heads.push_back({Q.select(0, h), K.select(0, h), V.select(0, h), O.select(0, h)});
  }
  for (const auto& [name, t] : file.tensors) {
    if (used.contains(name) || name.ends_with(".mask") || name.ends_with(".IGNORE")) continue;
    const bool bias = name.find(".b_") != std::string::npos;
    require(bias && std::ranges::all_of(t.flat(), [](Real x) { return x == 0; }), "weights", name,
            bias ? " is not zero: fold biases first (circuits/transform.h)"
                 : " has no place in an attention-only model without LayerNorm");
  }
  check(w);
  return w;
}

}  // namespace clearhead::inline CLEARHEAD_REAL
