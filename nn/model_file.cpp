#include "nn/model_file.h"

#include <nlohmann/json.hpp>

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

using Json = nlohmann::json;

// Ours keeps the heads side by side in the columns, [d_model, n_heads * d_head]; the file has a matrix per head.
Tensor to_file_axes(const std::string& name, const Tensor& t, const Config& c) {
  if (name.ends_with(".W_Q") || name.ends_with(".W_K") || name.ends_with(".W_V"))
    return t.reshape({c.d_model, c.n_heads, c.d_head}).permute({1, 0, 2}).contiguous();
  if (name.ends_with(".W_O")) return t.reshape({c.n_heads, c.d_head, c.d_model});
  if (name.ends_with(".b_Q") || name.ends_with(".b_K") || name.ends_with(".b_V"))
    return t.reshape({c.n_heads, c.d_head});
  return t;
}

Tensor from_file_axes(const std::string& name, const Tensor& t, const Shape& shape) {
  if (name.ends_with(".W_Q") || name.ends_with(".W_K") || name.ends_with(".W_V"))
    return t.permute({1, 0, 2}).reshape(shape).contiguous();
  return t.reshape(shape);
}

template <class F>
void for_each(Transformer& model, F f) {
  for_each_var("", model, f);
}

void write_into(const Var& v, const Tensor& numbers) {
  Tensor t = v.value();
  std::ranges::copy(numbers.flat(), t.mut().begin());
}

}  // namespace

void save_model(const std::string& path, Transformer model) {
  TensorFile file;
  file.metadata = {{"format", "pt"}, {"clearhead.config", to_json(model.config).dump()}};
  for_each(model,
           [&](const std::string& name, Var& v) { file.tensors[name] = to_file_axes(name, v.value(), model.config); });
  save_tensors(path, file);
}

Transformer load_model(const std::string& path) {
  const TensorFile file = load_tensors(path);
  const auto text = file.metadata.find("clearhead.config");
  require(text != file.metadata.end(), path,
          "has no 'clearhead.config' in its metadata, so the model cannot be rebuilt");
  const Json config = Json::parse(text->second, nullptr, false);
  require(!config.is_discarded(), path, "'clearhead.config' is not JSON");
  const Config c = config_from_json(config);
  file.at("embed.W_E", {c.d_vocab, c.d_model});  // before memory is taken for sizes that the file does not have
  Transformer model(c, 0);
  for_each(model, [&](const std::string& name, Var& v) {
    const Shape expected = to_file_axes(name, v.value(), model.config).shape();
    write_into(v, from_file_axes(name, file.at(name, expected), v.shape()));
  });
  return model;
}

void save_checkpoint(const std::string& path, const NamedParams& params, AdamW& adam, const Progress& progress,
                     const Json& run) {
  TensorFile file;
  file.metadata = {
      {"clearhead.checkpoint", Json{{"step", progress.step}, {"adam_steps", adam.steps}, {"run", run}}.dump()}};
  size_t i = 0;
  for (const auto& [name, p] : params) {
    file.tensors["model." + name] = p.value();
    file.tensors["adam.m." + name] = adam.m()[i];
    file.tensors["adam.v." + name] = adam.v()[i++];
  }
  save_tensors(path, file);
}

void require_same_settings(const std::string& path, const Json& before, const Json& now) {
  if (before == now) return;
  require(before.is_object(), path, "is damaged: the settings in it are no JSON object");
  const std::string key = Json::diff(before, now)[0]["path"];
  const auto at = [&](const Json& j) { return j.value(Json::json_pointer(key), Json()).dump(); };
  fail(path, "belongs to a run with other settings: ", key, " was ", at(before), ", is now ", at(now),
       "; give the same options, or another --out");
}

Progress load_checkpoint(const std::string& path, const NamedParams& params, AdamW& adam, const Json& run) {
  const TensorFile file = load_tensors(path);
  const auto text = file.metadata.find("clearhead.checkpoint");
  require(text != file.metadata.end(), path, "is not a checkpoint (no 'clearhead.checkpoint' in its metadata)");
  const Json state = Json::parse(text->second, nullptr, false);
  require(state.is_object() && state.contains("step") && state.contains("adam_steps") && state.contains("run"), path,
          "'clearhead.checkpoint' is broken");
  require_same_settings(path, state["run"], run);
  size_t i = 0;
  for (const auto& [name, p] : params) {
    write_into(p, file.at("model." + name, p.shape()));
    adam.m()[i] = file.at("adam.m." + name, p.shape()).clone();
    adam.v()[i++] = file.at("adam.v." + name, p.shape()).clone();
  }
  adam.steps = state["adam_steps"];
  return {.step = state["step"]};
}

}  // namespace clearhead::inline CLEARHEAD_REAL
