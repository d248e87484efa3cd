// Question   Do induction heads take two layers because keys cannot say what stood before them?
// Model      Attention only, d_model 64, on repeated segments (experiments/common/settings.h), with smeared keys: every
//            head mixes each key with the one before it, k_j <- s k_j + (1 - s) k_{j-1}, by a share s that it learns.
//            Then the previous-token head has nothing left to do, and one layer should suffice.
// Controls   One layer and two without smearing. Segments have random lengths and offsets, so that no head gets there
//            by position, as the heads of a published replication did ("attends five back", at a fixed period).
// Source     Olsson et al. 2022 (argument 2).
#include <fmt/core.h>

#include <cmath>

#include "experiments/common/curves.h"
#include "experiments/common/measures.h"
#include "experiments/common/settings.h"

using namespace clearhead;

namespace {
const std::string olsson = "Olsson et al. 2022";

struct Trained {
  Transformer model;
  Curve curve;
  double accuracy, prefix;  // at repeated tokens; of the best head, random tokens at the worst of several periods
};

double worst_prefix(const Transformer& model, const Setting& s, uint64_t seed) {
  double worst = 1;
  for (const int64_t length : {9, 12, 16, 21, 31}) {
    Rng rng(seed, Stream::analysis, uint64_t(length));
    const Tokens random = repeated_random(16, length, s.config.n_ctx / length, s.config.d_vocab - 1, rng);
    worst = std::min(worst, best(head_scores(model, begun_with(random, s.bos)).prefix));
  }
  return worst;
}

Trained fit(Run& run, const Setting& s, int64_t layers, bool smeared) {
  Config c = layers == 1 ? one_layer_of(s.config) : s.config;
  c.smeared_keys = smeared;
  Trained t{Transformer(c, run.seed()), {}, 0, 0};
  const Batch batch = next_token_batch(s.repeated);
  TrainOptions options = s.options;
  options.log_every = 10;
  const std::string label = std::string(layers == 1 ? "one_layer" : "two_layers") + (smeared ? "_smeared" : "");
  t.curve = train(run, label, t.model, s.batches, options, [&](const Transformer& m) -> nlohmann::json {
    return {{"accuracy", induction_accuracy(predict(m, batch), batch)}};
  });
  t.accuracy = t.curve.back().at("accuracy"), t.prefix = worst_prefix(t.model, s, run.seed());
  return t;
}

std::string shares(const Transformer& model) {
  std::string text;
  for (const Block& block : model.blocks)
    for (const Real alpha : block.attn.smear->value().flat())
      text += fmt::format(" {:.2f}", 1 / (1 + std::exp(-alpha)));
  return text;
}

void smeared_keys(Run& run) {
  const Setting s = repeated_segments(run);
  const Trained one = fit(run, s, 1, false), one_smeared = fit(run, s, 1, true), two = fit(run, s, 2, false),
                two_smeared = fit(run, s, 2, true);
  save_model(run.path("model.safetensors"), one_smeared.model);
  const Batch batch = next_token_batch(s.repeated);
  const double floor = order_blind_accuracy(batch);
  run.say("what a key keeps of its own, per head; one layer:" + shares(one_smeared.model) +
          "\n                         two layers:" + shares(two_smeared.model));
  const auto t50 = [](const Trained& t) { return rise(t.curve, "accuracy").t50; };
  run.say("one layer, smeared\n" + to_string(head_scores(one_smeared.model, batch.inputs)));
  run.finding(empirical, "I8", "with smeared keys, one layer copies what followed last time",
              "accuracy at repeated tokens, one layer, smeared", one_smeared.accuracy, at_least(0.95), olsson,
              {{"two layers", two.accuracy}, {"order-blind", floor}}, "one-layer models form induction heads");
  run.finding(empirical, "I8", "without, it does not", "accuracy of one layer above the best order-blind guess",
              one.accuracy - floor, at_most(0.1), olsson, {{"one layer", one.accuracy}}, "no phase change");
  run.finding(empirical, "I8", "by content: at any period of random tokens",
              "prefix matching, worst of 5 periods, one layer, smeared", one_smeared.prefix, at_least(0.6), olsson,
              {{"one layer", one.prefix}, {"two layers", two.prefix}},
              "a replication with a fixed period: heads that look five back");
  run.finding(empirical, "I8", "smeared keys bring the change forward in two layers, too",
              "steps to half the accuracy, two layers: smeared / not", t50(two_smeared) / t50(two), at_most(1), olsson,
              {{"two layers", t50(two)}, {"two layers, smeared", t50(two_smeared)}, {"one, smeared", t50(one_smeared)}},
              "earlier");
}
}  // namespace

int main(int argc, char** argv) {
  const Experiment experiment{"smeared_keys", "Does one layer suffice for induction, if keys see the token before?",
                              1500, 300};
  return run_experiment(argc, argv, experiment, nullptr, smeared_keys);
}
