// Question   What can a model without attention know? Only which token follows which: W_E W_U is a bigram table.
// Model      Zero layers: logits of the next token = W_E[token] W_U. No positions, nothing moves between positions.
// Tasks      1. A Markov chain whose transition matrix is known, so that the right table is known.
//            2. Random tokens, repeated: nothing to gain without moving information.
//            3. With --corpus, text: beside counted unigram and bigram models.
// Sources    Elhage et al. 2021: "the optimal behavior of W_U W_E is to approximate the bigram log-likelihood". The
//            identity behind the numbers: loss = H(next | last) + sum_i pi_i KL(P_i || softmax(W_E[i] W_U)), so the gap
//            is a distance.
#include <fmt/core.h>

#include <cmath>

#include "experiments/common/bigram_counts.h"
#include "experiments/common/measures.h"
#include "experiments/common/tasks.h"
#include "experiments/common/text.h"
#include "experiments/common/train.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {

const std::string framework = "Elhage et al. 2021";

struct Settings {
  int64_t V = 32;                                     // Markov chain: number of tokens
  std::vector<int64_t> ranks = {1, 2, 4, 8, 16, 32};  // d_model of the models; W_E W_U has at most this rank
  int64_t batch = 64, T = 64;                         // sequences per step, tokens per sequence
  double lr = 2e-2;  // AdamW with cosine decay, no weight decay: the gap to the truth is to be measured
  int64_t text_d_model = 256;
  double text_lr = 1e-2;
};

Config zero_layers(int64_t V, int64_t d_model, int64_t T) {
  Config c;
  c.d_vocab = V, c.d_model = d_model, c.n_layers = 0, c.n_ctx = T, c.positions = Positions::none;
  return c;
}

// The whole model in one table: log p(next | last) [V, V].
Tensor log_table(const Transformer& m) { return log_softmax(matmul(m.embed.W_E.value(), m.unembed.W_U.value())); }

// sum_i pi_i KL(P_i || model): exact, no sampling.
double gap(const MarkovChain& chain, const Tensor& table) {
  double loss = 0;
  for (int64_t i = 0; i < chain.V; ++i)
    for (int64_t j = 0; j < chain.V; ++j)
      loss -= chain.pi[size_t(i)] * chain.P[size_t(i * chain.V + j)] * double(table.at({i, j}));
  return loss - chain.entropy();
}

// Of W_E W_U with ln P, both centred for every last token, weighted pi_i P_ij.
double correlation(const MarkovChain& chain, const Tensor& table) {
  CentredCorrelation r;
  for (int64_t i = 0; i < chain.V; ++i) {
    std::vector<double> weight, truth, model;
    for (int64_t j = 0; j < chain.V; ++j) {
      const double p = chain.P[size_t(i * chain.V + j)];
      weight.push_back(chain.pi[size_t(i)] * p), truth.push_back(std::log(p)),
          model.push_back(double(table.at({i, j})));
    }
    r.add(weight, truth, model);
  }
  return r.value();
}

TrainOptions options(const Run& run, double lr) {
  return {.steps = run.options().steps,
          .lr = lr,
          .cosine = true,
          .warmup = 20,
          .adam = {.weight_decay = 0},
          .log_every = 50};
}

void markov(Run& run, const Settings& s) {
  const MarkovChain chain(s.V, Rng(run.seed(), Stream::eval));
  run.say(fmt::format("Markov chain of {} tokens: entropy {:.4f} nats given the last token, {:.4f} of single tokens",
                      s.V, chain.entropy(), chain.unigram_entropy()));
  const auto batch = [&](Rng& rng) { return next_token_batch(chain.sample(s.batch, s.T + 1, rng)); };
  std::vector<double> gaps;
  double best_r = 0, untrained_r = 0, worst_step = 0;
  for (const int64_t d : s.ranks) {
    Transformer model(zero_layers(s.V, d, s.T), run.seed());
    untrained_r = correlation(chain, log_table(model));
    train(run, fmt::format("markov_rank_{}", d), model, batch, options(run, s.lr));
    gaps.push_back(gap(chain, log_table(model)));
    best_r = correlation(chain, log_table(model));
    if (gaps.size() > 1) worst_step = std::max(worst_step, gaps.back() - gaps[gaps.size() - 2]);
    run.say(fmt::format("  rank {:>2}: {:.4f} nats above the entropy, correlation with ln P {:.4f}", d, gaps.back(),
                        best_r));
    if (d == s.ranks.back()) save_model(run.path("model.safetensors"), model);
  }
  const double unigram_gap = chain.unigram_entropy() - chain.entropy();
  run.finding(planted, "Z1", "W_E W_U becomes the table of bigram log-probabilities",
              "loss above the chain's entropy, exact, nats", gaps.back(), at_most(0.01), framework,
              {{"unigram model", unigram_gap}});
  run.finding(identity, "Z1", "no predictor of the next token beats the entropy", "smallest gap of all models, nats",
              *std::ranges::min_element(gaps), at_least(-1e-6), framework);
  run.finding(planted, "Z2", "the table can be read off the weights", "correlation of W_E W_U with ln P", best_r,
              at_least(0.98), framework, {{"untrained", untrained_r}});
  run.finding(planted, "Z3", "more rank never hurts", "largest rise of the gap from one rank to the next", worst_step,
              at_most(0.005), framework);
  run.finding(planted, "Z3", "a narrow model cannot hold the table", "gap at rank 2 / gap at full rank",
              gaps[1] / gaps.back(), at_least(5), framework, {{"gap at rank 2", gaps[1]}});
}

void repeats(Run& run, const Settings& s) {
  Transformer model(zero_layers(s.V, s.V, s.T), run.seed());
  const auto sequences = [&](int64_t B, Rng& rng) {
    return next_token_batch(repeated_random(B, s.T / 2, 2, s.V, rng));
  };
  train(
      run, "repeated", model, [&](Rng& rng) { return sequences(s.batch, rng); }, options(run, s.lr));
  Rng rng(run.seed(), Stream::eval, 1);
  const Predictions p = predict(model, sequences(512, rng));
  double second = 0;
  for (int64_t t = p.T / 2 + 1; t < p.T; ++t) second += p.mean_loss_at(t) / double(p.T - p.T / 2 - 1);
  run.finding(planted, "Z4", "without attention, a repetition is not noticed", "|loss on the second copy - ln V|, nats",
              std::abs(second - std::log(double(s.V))), at_most(0.02), framework);
}

void text(Run& run, const Settings& s) {
  const Corpus corpus = read_text(run);
  const int64_t V = corpus.tokenizer.vocab_size();
  const BigramCounts counts(corpus.train, V), held_out(corpus.held_out, V);
  Transformer model(zero_layers(V, s.text_d_model, 128), run.seed());
  const double untrained = held_out.loss_of(model.embed.W_E.value(), model.unembed.W_U.value());
  train(
      run, "text", model, [&](Rng& rng) { return next_token_batch(random_windows(corpus.train, 32, 129, rng)); },
      options(run, s.text_lr));
  save_model(run.path("text.safetensors"), model);

  const double loss = held_out.loss_of(model.embed.W_E.value(), model.unembed.W_U.value());
  const double unigram = counts.unigram_loss(held_out), bigram = counts.bigram_loss(held_out);
  run.say(
      fmt::format("held-out loss, nats per token, all {} tokens, exact:\n"
                  "  untrained {:.3f}   unigram {:.3f}   zero-layer model {:.3f}   counted bigrams, smoothed {:.3f}\n"
                  "  (entropy of the bigrams counted in training, a bound for the training text only: {:.3f})",
                  corpus.held_out.size(), untrained, unigram, loss, bigram, counts.conditional_entropy()));
  run.say(successors_table(corpus.tokenizer, counts, model.embed.W_E.value(), model.unembed.W_U.value()));
  run.finding(empirical, "Z1", "on text, the zero-layer model is a bigram model",
              "held-out loss above smoothed bigram counts, nats", loss - bigram, at_most(0.1), framework,
              {{"unigram", unigram - bigram}, {"untrained", untrained - bigram}});
  run.finding(empirical, "Z2", "on text, the bigram table can be read off the weights",
              "correlation of W_E W_U with counted ln P",
              counts.correlation(model.embed.W_E.value(), model.unembed.W_U.value()), at_least(0.9), framework);
}

}  // namespace

int main(int argc, char** argv) {
  const Experiment experiment{.name = "bigrams",
                              .question = "What can a model without attention know?",
                              .steps = 1200,
                              .quick_steps = 100,
                              .text_steps = 1200,
                              .vocab = 2048};
  return run_experiment(argc, argv, experiment, nullptr, [](Run& run) {
    const Settings s;
    run.config = {{"V", s.V},
                  {"T", s.T},
                  {"batch", s.batch},
                  {"lr", s.lr},
                  {"steps", run.options().steps},
                  {"text", to_json(run.options().text)},
                  {"text_d_model", s.text_d_model},
                  {"text_lr", s.text_lr}};
    run.begin();
    markov(run, s);
    repeats(run, s);
    if (!run.options().text.corpus.empty()) text(run, s);
  });
}
