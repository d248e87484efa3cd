#include "nn/transformer.h"

#include <nlohmann/json.hpp>

namespace clearhead {

constexpr std::array position_names{"none", "learned", "sinusoidal", "shortformer"};

const char* name(Positions p) { return position_names[size_t(p)]; }

Positions positions_from(const std::string& name) {
  const auto known = std::ranges::find(position_names, name);
  require(known != position_names.end(), "config", "unknown positions '", name, "'");
  return Positions(known - position_names.begin());
}

void Config::check() const {
  const std::pair<const char*, int64_t> at_least_one[] = {
      {"d_vocab", d_vocab}, {"d_model", d_model}, {"n_heads", n_heads}, {"d_head", d_head}, {"n_ctx", n_ctx}};
  for (const auto& [what, value] : at_least_one)
    require(value >= 1, "config", what, " must be at least 1, got ", value);
  require(n_layers >= 0 && d_mlp >= 0, "config", "n_layers and d_mlp cannot be negative, got ", n_layers, " and ",
          d_mlp);
  require(dropout >= 0 && dropout < 1, "config", "dropout must be in [0, 1), got ", dropout);
}

nlohmann::json to_json(const Config& c) {
  return {{"d_vocab", c.d_vocab},
          {"d_model", c.d_model},
          {"n_layers", c.n_layers},
          {"n_heads", c.n_heads},
          {"d_head", c.d_head},
          {"n_ctx", c.n_ctx},
          {"d_mlp", c.d_mlp},
          {"positions", name(c.positions)},
          {"biases", c.biases},
          {"layer_norm", c.layer_norm},
          {"smeared_keys", c.smeared_keys},
          {"dropout", c.dropout}};
}

Config config_from_json(const nlohmann::json& j) try {
  Config c;
  const std::pair<const char*, int64_t*> sizes[] = {
      {"d_vocab", &c.d_vocab}, {"d_model", &c.d_model}, {"n_layers", &c.n_layers}, {"n_heads", &c.n_heads},
      {"d_head", &c.d_head},   {"n_ctx", &c.n_ctx},     {"d_mlp", &c.d_mlp}};
  for (const auto& [key, field] : sizes) j.at(key).get_to(*field);
  c.positions = positions_from(j.at("positions").get<std::string>());
  j.at("biases").get_to(c.biases);
  c.smeared_keys = j.value("smeared_keys", false);  // not in older files
  j.at("layer_norm").get_to(c.layer_norm);
  j.at("dropout").get_to(c.dropout);
  c.check();
  return c;
} catch (const nlohmann::json::exception& e) {
  fail("config", "not a model's config: ", e.what());
}

inline namespace CLEARHEAD_REAL {

// Coordinates 2i and 2i + 1 turn with the same frequency, from one radian per position down to 1 / 10,000.
Tensor sinusoids(int64_t n_ctx, int64_t d_model) {
  Tensor t = Tensor::empty({n_ctx, d_model});
  const auto out = t.mut();
  for (int64_t pos = 0; pos < n_ctx; ++pos)
    for (int64_t i = 0; i < d_model; ++i) {
      const double angle = double(pos) * std::pow(10000.0, -double(i / 2 * 2) / double(d_model));
      out[size_t(pos * d_model + i)] = Real(i % 2 ? std::cos(angle) : std::sin(angle));
    }
  return t;
}

PosEmbedding::PosEmbedding(const Config& c, Rng& rng)
    : W_pos(c.positions == Positions::learned ? normal_param({c.n_ctx, c.d_model}, 1, rng)
                                              : Var(sinusoids(c.n_ctx, c.d_model))) {}

Block::Block(const Config& c, Rng& rng) : attn(c, rng) {
  if (c.d_mlp > 0) mlp.emplace(c, rng);
  if (!c.layer_norm) return;
  ln1.emplace(c.d_model);
  if (mlp) ln2.emplace(c.d_model);
}

Transformer::Transformer(const Config& c, uint64_t seed) : Transformer(c, Rng(seed, Stream::init)) {}

Transformer::Transformer(const Config& c, Rng rng) : config((c.check(), c)), embed(c, rng), unembed(c, rng) {
  if (c.positions != Positions::none) pos_embed.emplace(c, rng);
  for (int64_t l = 0; l < c.n_layers; ++l) blocks.emplace_back(c, rng);
  if (c.layer_norm) ln_final.emplace(c.d_model);
}

Var Transformer::stream(const Tokens& tokens, Probe& probe, Rng* drop) const {
  require(tokens.T <= config.n_ctx, "transformer", "the sequences have ", tokens.T, " tokens, n_ctx is ", config.n_ctx);
  const auto dropped = [&](const Var& x) { return drop && config.dropout > 0 ? dropout(x, config.dropout, *drop) : x; };
  Var x = probe("embed", embed(tokens)), pos;
  if (pos_embed) {
    pos = (*pos_embed)(tokens.B, tokens.T);
    if (config.positions != Positions::shortformer) x = x + pos;
  }
  for (size_t l = 0; l < blocks.size(); ++l) {
    const In here("blocks.", l);
    const Block& block = blocks[l];
    x = probe("resid_pre", x);
    const Var in = block.ln1 ? (*block.ln1)(x) : x;
    x = x + dropped(block.attn(in, config.positions == Positions::shortformer ? in + pos : in, probe));
    if (block.mlp) {
      x = probe("resid_mid", x);
      x = x + dropped((*block.mlp)(block.ln2 ? (*block.ln2)(x) : x, probe));
    }
    x = probe("resid_post", x);
  }
  return ln_final ? (*ln_final)(x) : x;
}

Var Transformer::logits(const Tokens& tokens, Probe& probe) const {
  return probe("logits", unembed(stream(tokens, probe)));
}

Var Transformer::logits(const Tokens& tokens) const {
  Probe none;
  return logits(tokens, none);
}

Var Transformer::loss(const Tokens& tokens, const Tokens& targets, Probe& probe, Rng* drop) const {
  return unembed.loss(stream(tokens, probe, drop), targets, fused_loss);
}

Var Transformer::loss(const Tokens& tokens, const Tokens& targets, Rng* drop) const {
  Probe none;
  return loss(tokens, targets, none, drop);
}

void Transformer::use(Kernel kernel) {
  for (Block& b : blocks) b.attn.kernel = kernel;
  fused_loss = kernel == Kernel::fused;
}

Batch next_token_batch(const Tokens& s) {
  Batch batch{Tokens(s.B, s.T - 1), Tokens(s.B, s.T - 1)};
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t t = 0; t + 1 < s.T; ++t) {
      batch.inputs(b, t) = s(b, t);
      batch.targets(b, t) = s(b, t + 1);
    }
  return batch;
}

}  // namespace CLEARHEAD_REAL
}  // namespace clearhead
