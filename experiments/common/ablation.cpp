#include "experiments/common/ablation.h"

#include <fmt/core.h>

#include "nn/circuits/heads.h"
#include "tensor/kernels.h"

namespace clearhead {
namespace {

// z of these heads becomes `instead` (of every layer, [n_heads * d_head]; none: 0), that of the others stays.
Probe exchange(const Config& c, const std::vector<HeadId>& heads, const std::vector<Tensor>& instead) {
  const int64_t width = c.d_head, all = c.n_heads * width;
  Probe probe;
  for (int64_t l = 0; l < c.n_layers; ++l) {
    Tensor keep({all}, 1), add({all}, 0);
    bool any = false;
    for (const HeadId& h : heads) {
      if (h.layer != l) continue;
      any = true;
      for (int64_t i = h.head * width; i < (h.head + 1) * width; ++i) {
        keep.mut()[size_t(i)] = 0;
        if (!instead.empty()) add.mut()[size_t(i)] = instead[size_t(l)].at({i});
      }
    }
    if (any)
      probe.replace(fmt::format("blocks.{}.attn.z", l), [keep, add](const std::string&, const Var& z) {
        return z * expand(Var(keep), z.shape()) + expand(Var(add), z.shape());
      });
  }
  return probe;
}

std::vector<Tensor> mean_z(const Transformer& model, const Tokens& tokens) {
  Probe probe;
  probe.capture("blocks.*.attn.z");
  const NoGrad no_grad;
  model.stream(tokens, probe);
  std::vector<Tensor> means;
  for (int64_t l = 0; l < model.config.n_layers; ++l) {
    const Tensor& z = probe[fmt::format("blocks.{}.attn.z", l)];
    means.push_back(scale(sum(sum(z, 0), 0), Real(1) / Real(tokens.B * tokens.T)).contiguous());
  }
  return means;
}

}  // namespace

Classes classes_of(const Trace& t, double previous_at_least) {
  Classes c;
  for (size_t l = 0; l < t.patterns.size(); ++l) {
    const auto previous = previous_token_scores(t.patterns[l]),
               prefix = prefix_matching_scores(t.patterns[l], t.tokens);
    for (size_t h = 0; h < prefix.size(); ++h)
      (prefix[h] >= 0.15                  ? c.induction
       : previous[h] >= previous_at_least ? c.previous
                                          : c.others)
          .push_back({int64_t(l), int64_t(h)});
    c.best_prefix.push_back(*std::ranges::max_element(prefix));
  }
  return c;
}

std::string listed(const std::vector<HeadId>& heads) {
  std::string text;
  for (const HeadId& h : heads) text += (text.empty() ? "" : " ") + to_string(h);
  return text.empty() ? "none" : text;
}

Probe knock_out(const Config& config, const std::vector<HeadId>& heads) { return exchange(config, heads, {}); }

Predictions predict_without(const Transformer& model, const Batch& batch, const std::vector<HeadId>& heads,
                            Ablation how) {
  const NoGrad no_grad;
  const Probe probe =
      exchange(model.config, heads, how == Ablation::mean ? mean_z(model, batch.inputs) : std::vector<Tensor>{});
  return predict(model, batch, [&](const Tokens& tokens) {
    Probe p = probe;
    if (how != Ablation::frozen) return p;
    Probe before;
    before.capture("blocks.*.attn.pattern");
    model.stream(tokens, before);
    p.replace("blocks.*.attn.pattern", [before](const std::string& name, const Var&) { return Var(before[name]); });
    return p;
  });
}

double loss_without(const Transformer& model, const Batch& batch, const std::vector<HeadId>& heads) {
  return mean_loss(predict_without(model, batch, heads), batch);
}

}  // namespace clearhead
