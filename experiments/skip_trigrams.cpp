// Question   What does one layer add to bigrams? Skip-trigrams, [source] ... [destination] -> [out], which can be read off
//            its weights, with the mistakes that their form forces on it.
// Model      One layer, d_model 64, no MLP, biases or LayerNorm; positions reach queries and keys only.
// Tasks      1. Planted skip-trigrams among noise (experiments/common/tasks.h): the truth is known.
//            2. Bursty sequences with a rule about the token before: what do heads specialize in?
//            3. A segment that repeats: what one layer cannot do.
//            With --corpus, text instead: tables to read, and counts in the text that bear them out or not.
// Controls   The untrained model; the same destinations without a source; heads with random weights.
// Source     Elhage et al. 2021, "One-layer attention-only transformers".
#include <fmt/core.h>

#include <cmath>

#include "experiments/common/bigram_counts.h"
#include "experiments/common/circuit_report.h"
#include "experiments/common/measures.h"
#include "experiments/common/skip_trigram_report.h"
#include "experiments/common/text.h"
#include "experiments/common/train.h"
#include "nn/circuits/heads.h"
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
  const Linearity linear = linearity(t);
  run.finding(identity, "O2", "with its patterns frozen, it is linear in its tokens",
              "logits of a mixture of two sequences, against the mixture of their logits", linear.frozen, at_most(1e-5),
              elhage, {{"patterns not frozen", linear.free}});
  const PlantedOuts outs_four = planted_outs(four, language, run.seed()),
                    outs_one = planted_outs(one, language, run.seed()),
                    outs_two = planted_outs(two_layers, language, run.seed());
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

// O5, O6: what the heads of a one-layer model specialize in.
void specialists(Run& run, const Weights& w, const Weights& untrained, const std::string& reported) {
  Rng rng(run.seed(), Stream::analysis, 1);
  const Specialists trained = specialists_of(w, rng), random = specialists_of(untrained, rng);
  run.finding(empirical, "O5", "most heads copy: positive eigenvalues", "heads of 8 above .5 and 4 sd of random heads",
              double(trained.positive), at_least(5), elhage, {{"untrained", double(random.positive)}}, reported);
  run.finding(empirical, "O5", "and of most of them, a token raises itself above all others",
              "heads of 8 for which that is so for half of the tokens", double(trained.own_first), at_least(5), elhage,
              {{"all heads added up: eigenvalue score", trained.together.eigenvalues},
               {"all heads added up: own token first", trained.together.own_is_first}});
  run.finding(empirical, "O6", "the others look at a position",
              "attention to one offset (0 or 1) by position alone, best head", trained.position, at_least(0.8), elhage,
              {}, "2 of 12 heads, present or previous token");
}

void bursty(Run& run) {
  const BurstyLanguage language(Rng(run.seed(), Stream::eval, 1));
  const auto batches = [&](Rng& rng) { return next_token_batch(language.sample(32, rng)); };
  Transformer model(model_config(language.V, language.T, 1, 8), run.seed());
  const Transformer untrained(model.config, run.seed());
  train(run, "bursty", model, batches, {.steps = run.options().steps, .lr = 6e-3});
  Rng rng(run.seed(), Stream::analysis, 2);
  const Batch batch = next_token_batch(language.sample(512, rng));
  run.say(head_table(trace(model, batch.inputs), rng));
  specialists(run, weights_of(model), weights_of(untrained), "10 of 12 heads, on natural text");
  const auto gain = [&](const Transformer& m) {  // the topic is not known at position 0
    const Predictions p = predict(m, batch);
    return p.mean_loss_at(p.T - 1) - p.mean_loss_at(0);
  };
  run.finding(empirical, "O7", "in-context learning of the primitive kind, [b] ... [a] -> [b]",
              "loss at the last position minus at the first, nats", gain(model), at_most(-0.3), elhage,
              {{"untrained", gain(untrained)}});

  const RepeatedSegment task;
  Transformer repeats(model_config(task.V, task.T, 1, 8), run.seed());
  train(run, "repeats", repeats, [&](Rng& r) { return next_token_batch(task.sample(32, r)); },
        {.steps = run.options().steps, .lr = 6e-3});
  const Batch eval = next_token_batch(task.sample(128, rng));
  const double accuracy = induction_accuracy(predict(repeats, eval), eval), blind = order_blind_accuracy(eval);
  run.finding(empirical, "O7", "but not [a][b] ... [a] -> [b]", "accuracy on a repeated segment, above order-blind",
              accuracy - blind, at_most(0.15), elhage,
              {{"accuracy", accuracy}, {"best prefix matching", best(head_scores(repeats, eval.inputs).prefix)}});
}

void text(Run& run) {
  const Corpus corpus = read_text(run);
  const int64_t V = corpus.tokenizer.vocab_size(), T = 128;
  Config c = model_config(V, T, 1, 8);
  c.d_model = 256, c.d_head = 32;
  Transformer model(c, run.seed());
  const Weights untrained = weights_of(Transformer(c, run.seed()));
  const auto batches = [&](Rng& rng) { return next_token_batch(random_windows(corpus.train, 16, T + 1, rng)); };
  train(run, "text", model, batches, {.steps = run.options().steps, .lr = 3e-3, .cosine = true});
  save_model(run.path("text.safetensors"), model);
  const Weights w = weights_of(model);
  const std::vector<double> all = frequencies(corpus.train, V);
  const std::vector<int64_t> ids = tokens_at_least(all, 3e-4);
  const Weights frequent = of_tokens(w, ids);
  std::vector<double> p;
  double share = 0;
  for (int64_t id : ids) p.push_back(all[size_t(id)]), share += p.back();
  for (double& x : p) x /= share;
  const Names names = [&](int64_t i) { return corpus.tokenizer.piece(int32_t(ids[size_t(i)])); };

  Rng rng(run.seed(), Stream::analysis);
  const Batch held_out = next_token_batch(consecutive_windows(corpus.held_out, T + 1, 256));
  run.say(head_table(trace(model, held_out.inputs), rng));
  specialists(run, w, untrained, "10 of 12 heads of d_model 768, a vocabulary of 50,000");
  run.say(fmt::format("skip-trigrams of the {} tokens that make up {:.0f} % of the text, centred by frequency",
                      ids.size(), 100 * share));
  std::vector<Gain> gains;
  for (int64_t h = 0; h < 8; ++h) {
    const auto rows = strongest(frequent, {0, h}, p, 12, 20);
    run.say(fmt::format("{}  source | looked at from | raises\n{}", to_string(HeadId{0, h}),
                        skip_trigram_table(rows, names, 5)));
    for (const SkipTrigrams& row : rows) gains.push_back(largest_gain(frequent, row, p, T / 2));
  }
  const GainReport found = report_gains(gains, as_indices(corpus.train, ids), T - 1, 30, names);
  run.say(found.table);
  run.finding(empirical, "O3", "skip-trigrams read off the weights are in the text",
              "median p(out | destination, source before) / p(out | destination, not)", found.median_lift, at_least(2),
              elhage, {{"outs exchanged", found.exchanged_lift}, {"share with 2 or more", found.borne}});
  const double loss = mean_loss(predict(model, held_out), held_out);
  const double counted = BigramCounts(corpus.train, V).bigram_loss(BigramCounts(corpus.held_out, V));
  run.finding(empirical, "O3", "and with them one layer predicts better than bigrams can",
              "held-out loss minus that of smoothed bigram counts, nats", loss - counted, at_most(-0.1), elhage,
              {{"loss", loss}});
}

}  // namespace

int main(int argc, char** argv) {
  const Experiment experiment{.name = "skip_trigrams",
                              .question = "What does one layer add to bigrams?",
                              .steps = 1500,
                              .quick_steps = 200,
                              .text_steps = 3000,
                              .vocab = 2048};
  return run_experiment(argc, argv, experiment, nullptr, [](Run& run) {
    run.config = {{"steps", run.options().steps}, {"text", to_json(run.options().text)}};
    run.begin();
    if (!run.options().text.corpus.empty()) return text(run);
    planted_triples(run);
    bursty(run);
  });
}
