#include "nn/circuits/trace.h"

namespace clearhead::inline CLEARHEAD_REAL {

Trace trace(const Transformer& model, const Tokens& tokens) {
  Trace t{tokens, {}, {}, {}, {}, {}};
  t.probe.capture("*");
  const NoGrad no_grad;
  t.logits = model.logits(tokens, t.probe).value();
  for (size_t l = 0; l < model.blocks.size(); ++l) {
    const std::string at = "blocks." + std::to_string(l) + ".attn.";
    t.patterns.push_back(t.probe[at + "pattern"]);
    t.scores.push_back(t.probe[at + "scores"]);
  }
  if (model.config.attention_only()) t.w = weights_of(model);
  return t;
}

}  // namespace clearhead::inline CLEARHEAD_REAL
