// Question   Do induction heads form out of plain text, on a laptop? Where, where not, and why?
// Model      2 layers of 4 heads, d_model 128, attention only, trained on windows of 256 tokens to predict the next one.
// Task       Code and technical text; literary prose; mixtures. One tokenizer (BPE, 1024) serves all, learned from both.
// Measured   on held-out passages that come four times in a row, and on random tokens that do: where heads look, and what
//            the later copies cost less than the first. Nothing in training is repeated on purpose.
// Controls   One layer of 8 heads; the same model on prose, as long; as many heads knocked out that are no induction heads.
// Why        The pay-off of copying: how often what followed last time is right, where the bigram model is wrong.
// Source     Olsson et al. 2022, whose smallest models saw 10^10 tokens.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "experiments/common/ablation.h"
#include "experiments/common/bigram_counts.h"
#include "experiments/common/snapshots.h"
#include "experiments/common/text.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {
const std::string olsson = "Olsson et al. 2022";
constexpr int64_t T = 256, passage = 64, copies = T / passage;

struct Eval {  // held-out text of one kind
  Batch passages, windows;
};

struct Data {
  BothTexts texts;
  Eval code, prose;
  Tokens random;  // passages of random tokens that are neither among the most nor the least frequent eighth
};

Eval eval_of(const Corpus& c) {
  const auto batch = [&](const Tokens& sequences) {
    return next_token_batch(begun_with(sequences, c.tokenizer.bos()));
  };
  return {batch(repeated(consecutive_windows(c.held_out, passage, 32), copies)),
          batch(consecutive_windows(c.held_out, T, 64))};
}

Data data_of(Run& run) {
  Data d{read_both_texts(run, 1024), {}, {}, {}};
  d.code = eval_of(d.texts.code), d.prose = eval_of(d.texts.prose);
  const int64_t V = d.texts.tokenizer().vocab_size();
  const auto p = frequencies(d.texts.code.train, V), q = frequencies(d.texts.prose.train, V);
  std::vector<int32_t> ids(static_cast<size_t>(V));
  for (int32_t i = 0; i < V; ++i) ids[size_t(i)] = i;
  std::ranges::sort(ids, {}, [&](int32_t i) { return p[size_t(i)] + q[size_t(i)]; });
  Rng rng(run.seed(), Stream::eval);
  d.random = repeated_random(16, passage, copies, V * 3 / 4, rng);
  for (int32_t& id : d.random.ids) id = ids[size_t(V / 8 + id)];
  d.random = next_token_batch(begun_with(d.random, d.texts.tokenizer().bos())).inputs;
  return d;
}

// Loss of passages that repeat: of the first copy, and of the same tokens in the later ones. (Not of a passage's first
// token, which does not follow what it followed before.)
struct Copies {
  double first = 0, later = 0;
  double gain() const { return first - later; }
};
Copies copies_of(const Predictions& p) {
  Copies c;
  for (int64_t t = 0; t < p.T; ++t)
    if (t % passage != 0)
      (t < passage ? c.first : c.later) += p.mean_loss_at(t) / double((passage - 1) * (t < passage ? 1 : copies - 1));
  return c;
}

nlohmann::json snapshot(const Transformer& m, const Data& d) {
  nlohmann::json j{{"random_prefix", best(head_scores(m, d.random).prefix)}};
  const HeadScores heads = head_scores(m, d.code.passages.inputs);
  j["previous"] = best(heads.previous.at(0)), j["code_prefix"] = best(heads.prefix);
  j["prose_prefix"] = best(head_scores(m, d.prose.passages.inputs).prefix);
  for (const auto& [name, eval] : {std::pair{"code", &d.code}, std::pair{"prose", &d.prose}}) {
    const std::string of = std::string(name) + "_";
    const Copies c = copies_of(predict(m, eval->passages));
    const Predictions w = predict(m, eval->windows);
    j[of + "first"] = c.first, j[of + "later"] = c.later;
    j[of + "loss"] = mean_loss(w), j[of + "icl"] = icl_score(w, .9, .1, .05);
  }
  return j;
}

struct Trained {
  Transformer model;
  Curve curve;
  double end(const std::string& key) const { return curve.back().at(key); }
  double gain(const std::string& text) const { return end(text + "_first") - end(text + "_later"); }
};

Trained fit(Run& run, const std::string& label, int64_t layers, double code, const Data& d, int64_t steps) {
  Config c;
  c.d_vocab = d.texts.tokenizer().vocab_size(), c.n_ctx = T, c.d_model = 128, c.d_head = 32, c.n_layers = layers;
  c.n_heads = layers == 1 ? 8 : 4;  // as many parameters
  Trained t{Transformer(c, run.seed()), {}};
  const auto batches = [&](Rng& rng) {
    Tokens rows(8, T + 1);
    for (int64_t b = 0; b < rows.B; ++b) {
      const Corpus& from = rng.uniform() < code ? d.texts.code : d.texts.prose;
      std::ranges::copy(random_windows(from.train, 1, T + 1, rng).ids, rows.ids.begin() + b * (T + 1));
    }
    return next_token_batch(begun_with(rows, d.texts.tokenizer().bos()));
  };
  t.curve = train(run, label, t.model, batches, {.steps = steps, .lr = 4e-3, .warmup = 200, .log_growth = 0.1},
                  [&](const Transformer& m) { return snapshot(m, d); });
  return t;
}

int natural_text(Run& run) {
  const Data d = data_of(run);
  fit(run, "two_layers_code", 2, 1, d, run.options().steps);
  return 0;
}
}  // namespace

int main(int argc, char** argv) {
  const Experiment experiment{"natural_text", "Do induction heads form out of plain text?", 7300, 300};
  return run_experiment(argc, argv, experiment, nullptr, [](Run& run) {
    run.begin();
    natural_text(run);
  });
}
