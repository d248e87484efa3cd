// Question   What does one layer add to bigrams? Skip-trigrams, [source] ... [destination] -> [out], which can be read off
//            its weights, with the mistakes that their form forces on it.
// Model      One layer, d_model 64, no MLP, biases or LayerNorm; positions reach queries and keys only.
// Tasks      1. Planted skip-trigrams among noise (experiments/common/tasks.h): the truth is known.
//            2. Bursty sequences with a rule about the token before: what do heads specialize in?
// Controls   The untrained model; the same destinations without a source; heads with random weights.
// Source     Elhage et al. 2021, "One-layer attention-only transformers".
#include <fmt/core.h>

#include <cmath>

#include "experiments/common/circuit_report.h"
#include "experiments/common/measures.h"
#include "nn/circuits/tables.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {

const std::string elhage = "Elhage et al. 2021";

Config model_config(int64_t V, int64_t T, int64_t layers, int64_t heads) {
  Config c;
  c.d_vocab = V, c.n_ctx = T, c.n_layers = layers, c.n_heads = heads;
  return c;
}

// The share of planted triples that are the largest entry of the whole-model table for their source and destination, in a
// context of as much noise as is usual. From the weights alone.
double recall(const Weights& w, const SkipTrigramLanguage& language) {
  std::vector<double> frequencies(size_t(w.V()), 0);
  std::fill(frequencies.end() - language.noise, frequencies.end(), 1 / double(language.noise));
  double found = 0;
  for (int64_t s = 0; s < language.sources; ++s)
    for (int64_t d = 0; d < language.destinations; ++d) {
      const auto logits =
          skip_trigram_logits(w, language.source(s), language.destination(d), frequencies, double(language.T) / 2);
      found += std::ranges::max_element(logits) - logits.begin() == language.out(s, d);
    }
  return found / double(language.sources * language.destinations);
}

// Mean probabilities at destinations: of the right out, and of `mistakes`, outs of the same source with another
// destination. With the source in the context, and with noise in its place.
struct Outs {
  double right, mistake, mistake_without_source;
};
Outs outs(const Transformer& model, const SkipTrigramLanguage& language, uint64_t seed) {
  Rng rng(seed, Stream::eval);
  const Batch batch = next_token_batch(language.sample(512, rng));
  Tokens without = batch.inputs;
  for (int32_t& id : without.ids)
    if (id < language.sources) id = int32_t(language.V() - 1);
  const NoGrad no_grad;
  const Tensor p = softmax(model.logits(batch.inputs).value()), q = softmax(model.logits(without).value());
  Outs mean{0, 0, 0};
  double n = 0;
  for (int64_t b = 0; b < batch.inputs.B; ++b) {
    int64_t source = -1;
    for (int64_t t = 0; t < batch.inputs.T; ++t) {
      const int32_t id = batch.inputs(b, t);
      if (id < language.sources) source = id;
      const int64_t d = id - language.sources;
      if (source < 0 || d < 0 || d >= language.destinations) continue;
      mean.right += double(p.at({b, t, language.out(source, d)}));
      for (int64_t other = 0; other < language.destinations; ++other)
        if (other != d) {
          mean.mistake += double(p.at({b, t, language.out(source, other)}));
          mean.mistake_without_source += double(q.at({b, t, language.out(source, other)}));
        }
      ++n;
    }
  }
  return {mean.right / n, mean.mistake / n, mean.mistake_without_source / n};
}

void planted_triples(Run& run) {
  const SkipTrigramLanguage language;
  const auto batches = [&](Rng& rng) { return next_token_batch(language.sample(64, rng)); };
  const auto fit = [&](const std::string& label, int64_t heads, int64_t layers) {
    Transformer model(model_config(language.V(), language.T, layers, heads), run.seed());
    train(run, label, model, batches, {.steps = run.options().steps, .lr = 6e-3});
    return model;
  };
  const Transformer four = fit("four_heads", 4, 1), one = fit("one_head", 1, 1), two_layers = fit("two_layers", 4, 2);
  save_model(run.path("model.safetensors"), four);
  save_model(run.path("one_head.safetensors"), one);
  const Weights w = weights_of(four);
  Rng rng(run.seed(), Stream::analysis);
  const Trace t = trace(four, next_token_batch(language.sample(16, rng)).inputs);
  const std::vector<Tensor> streams = streams_by_order(w, t.patterns, t.tokens);
  run.finding(identity, "O1", "a one-layer model is a bigram table and its heads",
              "direct path + heads, against the logits",
              relative_difference(matmul(add(streams[0], streams[1]), w.W_U), t.logits), at_most(1e-4), elhage,
              {{"direct path alone", relative_difference(matmul(streams[0], w.W_U), t.logits)}});
  const Outs outs_four = outs(four, language, run.seed()), outs_one = outs(one, language, run.seed()),
             outs_two = outs(two_layers, language, run.seed());
  const double blind = 1 / double(language.sources);
  run.finding(planted, "O3", "skip-trigrams are learned", "probability of the planted out", outs_four.right,
              at_least(0.8), elhage, {{"without looking back", blind}, {"one head", outs_one.right}});
  run.finding(planted, "O3", "and read off the weights, without running the model",
              "planted triples that are the largest entry of the whole-model table", recall(w, language), at_least(0.9),
              elhage,
              {{"untrained", recall(weights_of(Transformer(four.config, run.seed())), language)},
               {"one head", recall(weights_of(one), language)}});
  // One head: its term is A(destination, source) OV(source, out), so what it raises for a source it raises at every
  // destination that looks there, also what belongs to others ("keep ... in bay").
  run.finding(empirical, "O4", "their form forces mistakes: what belongs to another destination is raised too",
              "probability of such outs, one head, with the source / without",
              outs_one.mistake / outs_one.mistake_without_source, at_least(2), elhage,
              {{"probability", outs_one.mistake},
               {"four heads, same ratio", outs_four.mistake / outs_four.mistake_without_source},
               {"two layers, same ratio", outs_two.mistake / outs_two.mistake_without_source}},
              "\"keep ... in mind\" and \"at bay\" give \"keep ... in bay\"");
}

void specialists(Run& run) {
  const BurstyLanguage language(Rng(run.seed(), Stream::eval, 1));
  const auto batches = [&](Rng& rng) { return next_token_batch(language.sample(32, rng)); };
  Transformer model(model_config(language.V, language.T, 1, 8), run.seed());
  Rng rng(run.seed(), Stream::analysis, 1);
  const auto copying_heads = [&](const Weights& w) {
    const Null null = copying_null(w, w.layers[0][0].W_V.dim(1), 200, rng);
    return std::ranges::count_if(w.layers[0], [&](const Head& h) {
      const Copying c = copying(token_ov(w, h));
      return c.eigenvalues > 0.5 && null.sigmas(c.eigenvalues) > 4 && c.own_is_first >= 0.5;
    });
  };
  const auto untrained = copying_heads(weights_of(model));
  train(run, "bursty", model, batches, {.steps = run.options().steps, .lr = 6e-3});
  const Weights w = weights_of(model);
  const Trace t = trace(model, next_token_batch(language.sample(16, rng)).inputs);
  run.say(head_table(t, rng));
  double best_position = 0;
  for (const Head& h : w.layers[0]) {
    const Tensor pattern = causal_softmax(position_qk(w, h).dense());
    double now = 0, before = 0;
    for (int64_t i = 1; i < language.T; ++i)
      now += double(pattern.at({i, i})) / double(language.T - 1),
          before += double(pattern.at({i, i - 1})) / double(language.T - 1);
    best_position = std::max({best_position, now, before});
  }
  Sum all;
  for (const Head& h : w.layers[0]) all.push_back(token_ov(w, h));
  const Copying together = copying(joined(all));
  run.finding(empirical, "O5", "most heads copy",
              "heads of 8 with eigenvalue score > .5, > 4 sd, own token first >= .5", double(copying_heads(w)),
              at_least(5), elhage,
              {{"untrained", double(untrained)},
               {"all heads added up, eigenvalue score", together.eigenvalues},
               {"all heads added up, own token first", together.own_is_first}},
              "10 of 12 heads, on natural text");
  run.finding(empirical, "O6", "the others look at a position",
              "attention to one offset (0 or 1) by position alone, best head", best_position, at_least(0.8), elhage, {},
              "2 of 12 heads, present or previous token");
}

}  // namespace

int main(int argc, char** argv) {
  return run_experiment(argc, argv, {"skip_trigrams", "What does one layer add to bigrams?", 1500, 200}, nullptr,
                        [](Run& run) {
                          run.config = {{"steps", run.options().steps}};
                          run.begin();
                          planted_triples(run);
                          specialists(run);
                        });
}
