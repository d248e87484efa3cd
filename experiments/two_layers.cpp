// Question   What do two layers of attention compute, read off the weights, path by path?
// Model      2 layers of 4 heads, d_model 64, no MLP, biases or LayerNorm; positions reach queries and keys only.
// Task       A segment that repeats with random length and offset; with --corpus, text (experiments/common/settings.h).
// Findings   T1-T9: the logits and the attention scores as sums over paths, term importance by order, composition
//            against random matrices, and the induction circuit. Heads are named by what they do; weights measured apart.
// Controls   The untrained model; random matrices of the same shapes; the same sums with terms left out.
// Source     Elhage et al. 2021, "Two-layer attention-only transformers". Its composition figure was wrong (corrected
//            by the authors: more heads compose than it showed), so "only one pair composes" is not asked.
#include <fmt/core.h>

#include <cmath>

#include "experiments/common/ablation.h"
#include "experiments/common/circuit_report.h"
#include "experiments/common/measures.h"
#include "experiments/common/settings.h"
#include "nn/circuits/heads.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {

const std::string elhage = "Elhage et al. 2021", olsson = "Olsson et al. 2022";

struct Cast {  // who does what, by behaviour on the evaluation batch
  HeadId previous, induction;
  std::vector<double> previous_scores;  // of layer 0
};

Cast cast(const Trace& t) {
  const auto argmax = [](const std::vector<double>& x) { return std::ranges::max_element(x) - x.begin(); };
  const auto previous = previous_token_scores(t.patterns[0]);
  return {{0, argmax(previous)}, {1, argmax(prefix_matching_scores(t.patterns[1], t.tokens))}, previous};
}

void paths(Run& run, const Trace& t) {
  Tensor sum({t.tokens.B, t.tokens.T, t.w.d_model()}), short_paths = sum.clone();
  int64_t n = 0;
  for_each_path(t.w, t.patterns, t.tokens, 2, [&](const Path& p, const Tensor& x) {
    add_into(sum, x), ++n;
    if (p.size() < 2) add_into(short_paths, x);
  });
  run.finding(identity, "T1", "the logits are a sum over paths", fmt::format("sum of {} paths, against the logits", n),
              relative_difference(matmul(sum, t.w.W_U), t.logits), at_most(1e-4), elhage,
              {{"without virtual heads", relative_difference(matmul(short_paths, t.w.W_U), t.logits)}});
  double worst = 0;
  for (int64_t one = 0; one < t.patterns[0].dim(1); ++one)
    for (int64_t two = 0; two < t.patterns[1].dim(1); ++two) {
      const Tensor A = virtual_pattern(t.patterns[0].select(1, one), t.patterns[1].select(1, two));
      worst = std::max(worst, max_abs_diff(clearhead::sum(A, -1), Tensor({t.tokens.B, t.tokens.T}, 1)));
    }
  run.finding(identity, "T7", "the pattern of a virtual head, A2 A1, is a pattern", "largest | sum of a row - 1 |",
              worst, at_most(1e-5), elhage);
}

// Of the scores of the induction head: which paths decide where it looks?
void scores(Run& run, const Trace& t, const Cast& who) {
  const ScoreParts s = score_parts(t.w, t.patterns, t.tokens, who.induction);
  const Tensor all = t.scores[1].select(1, who.induction.head).contiguous();
  const Tensor sum = s.total();
  run.finding(identity, "T2", "so are the attention scores of a later head",
              "direct + Q + K + QK composition, against the scores", relative_difference(sum, all), at_most(1e-4),
              elhage, {{"without K-composition", relative_difference(sub(sum, s.keys), all)}});
  run.finding(empirical, "T2", "K-composition alone says where the induction head looks",
              "same most attended source, or one that followed the same token", same_source(all, s.keys, t.tokens),
              at_least(0.9), elhage, {{"Q-composition alone", same_source(all, s.queries, t.tokens)}});
  const auto prefix = [&](const Tensor& score) {
    const Tensor pattern = causal_softmax(score);
    return prefix_matching_scores(pattern.reshape({t.tokens.B, 1, t.tokens.T, t.tokens.T}), t.tokens)[0];
  };
  run.finding(empirical, "T2", "and without it the head finds nothing",
              "prefix matching without the K-composition terms", prefix(sub(all, s.keys)), at_most(0.15), elhage,
              {{"with all terms", prefix(all)}, {"without Q-composition", prefix(sub(all, s.queries))}});
}

void composition(Run& run, const Trace& t, const Cast& who) {
  Rng rng(run.seed(), Stream::analysis, 1);
  const std::vector<Composed> all = compositions(t.w, rng);
  run.say(composition_table(all, 8));
  double keys = 0, rival = -100, others = -100, null_mean = 0;
  for (const Composed& c : all) {
    if (c.second != who.induction) continue;
    const double sigmas = c.null.sigmas(c.score);
    if (c.through == Through::keys && c.first == who.previous)
      keys = sigmas, null_mean = c.null.mean;
    else if (c.through == Through::keys)
      rival = std::max(rival, sigmas);
    else if (c.first == who.previous)
      others = std::max(others, sigmas);
  }
  run.finding(empirical, "T3", "the induction head's keys read the previous-token head",
              "K-composition, standard deviations above random matrices", keys, at_least(5), elhage,
              {{"null mean (about 1 / sqrt(d_model))", null_mean}});
  run.finding(empirical, "T3", "more than any other head of layer 0, and more than its queries and values do",
              "the same, minus the largest of the others", keys - std::max(rival, others), at_least(0), elhage,
              {{"another head, keys", rival}, {"the same head, queries or values", others}});
}

// Positive eigenvalues of both circuits: it looks for tokens like its own, before the source, and raises what it finds.
void eigenvalues(Run& run, const Trace& t, const Cast& who) {
  Rng rng(run.seed(), Stream::analysis, 2);
  const Head& head = at(t.w, who.induction);
  const double qk_score = copying_score(matching(t.w, who.previous_scores, head)),
               ov_score = copying_score(token_ov(t.w, head));
  const int64_t d_head = head.W_V.dim(1);
  const Null qk_null = matching_null(t.w, who.previous_scores, d_head, 100, rng),
             ov_null = copying_null(t.w, d_head, 100, rng);
  run.finding(empirical, "T4", "eigenvalues: the QK circuit through the previous-token heads matches tokens",
              "sum Re(l) / sum |l| of W_E QK (OV of layer 0)^T W_E^T", qk_score, at_least(0.5), elhage,
              {{"in sd of random heads", qk_null.sigmas(qk_score)}});
  run.finding(empirical, "T4", "and the OV circuit copies", "sum Re(l) / sum |l| of W_E OV W_U", ov_score,
              at_least(0.5), elhage, {{"in sd of random heads", ov_null.sigmas(ov_score)}});
}

void importance(Run& run, const Trace& t, const Transformer& model, const Batch& batch) {
  const double full = model.loss(batch.inputs, batch.targets).value().item(), uniform = std::log(double(t.w.V()));
  const std::vector<double> loss = loss_by_order(t, batch.targets);
  const auto layer = [](int64_t l) { return [l](const HeadId& h) { return h.layer == l; }; };
  const double single[2] = {loss_with_single_heads(t, batch.targets, layer(0)),
                            loss_with_single_heads(t, batch.targets, layer(1))};
  const double alone[2] = {loss[0] - single[0], loss[0] - single[1]};
  const double marginal[2] = {single[1] - loss[1], single[0] - loss[1]};  // what is lost without it
  std::vector<HeadId> layer_0;
  for (int64_t h = 0; h < model.config.n_heads; ++h) layer_0.push_back({0, h});
  const double unfrozen = loss_without(model, batch, layer_0);
  run.say(fmt::format(
      "term importance, nats: direct path {:.3f}, + single heads {:.3f}, + virtual heads {:.3f} (uniform {:.3f})\n"
      "  layer 0 alone {:.3f}, marginal {:.3f}; layer 1 alone {:.3f}, marginal {:.3f}",
      loss[0], loss[1], loss[2], uniform, alone[0], marginal[0], alone[1], marginal[1]));
  run.say(importance_table(t, batch.targets));
  run.finding(identity, "T6", "paths of every order give the full loss", "|loss of all orders - loss|",
              std::abs(loss[2] - full), at_most(1e-4), elhage, {{"without virtual heads", std::abs(loss[1] - full)}});
  run.finding(empirical, "T6", "virtual heads matter less than single heads", "nats by virtual heads / by single heads",
              std::abs(loss[1] - loss[2]) / (loss[0] - loss[1]), at_most(0.5), elhage, {}, "0.3 / 5.2 nats");
  run.finding(empirical, "T6", "what layer 0 writes matters little by itself",
              "marginal effect of layer 0 / of layer 1", std::abs(marginal[0]) / marginal[1], at_most(0.2), elhage,
              {{"layer 0, nats", marginal[0]}, {"layer 1, nats", marginal[1]}}, "0.05 / 4.0 nats");
  run.finding(empirical, "T6", "yet without it, patterns not frozen, there is no induction",
              "loss without layer 0 above the full loss, as a share of ln V above it",
              (unfrozen - full) / (uniform - full), at_least(0.8), elhage,
              {{"its marginal effect, same units", marginal[0] / (uniform - full)}});
}

// Heads are labelled by what they do on `random`, and knocked out on the batch of t, beside as many of the others.
void ablation(Run& run, const Trace& random, const Trace& t, const Transformer& model, const Batch& batch) {
  Classes c = classes_of(random);
  c.others.resize(std::min(c.others.size(), c.induction.size()));
  run.finding(empirical, "I12", "induction heads are in the last layer",
              "best prefix matching in layer 1 minus layer 0", c.best_prefix[1] - c.best_prefix[0], at_least(0.15),
              olsson);
  const double full = loss_without(model, batch, {}), direct = loss_by_order(t, batch.targets)[0];
  const auto lost = [&](const std::vector<HeadId>& heads) {
    return (loss_without(model, batch, heads) - full) / (direct - full);
  };
  run.finding(empirical, "I9", "much of what all heads give is gone without the induction heads",
              "loss that comes back, as a share of that of the direct path", lost(c.induction), at_least(0.2), olsson,
              {{fmt::format("without {} others", c.others.size()), lost(c.others)}});
}

void two_layers(Run& run) {
  const Setting s = run.options().text.corpus.empty() ? repeated_segments(run) : text_passages(run);
  Transformer model(s.config, run.seed());
  train(run, "two_layers", model, s.batches, s.options);
  save_model(run.path("model.safetensors"), model);
  const NoGrad no_grad;
  Rng rng(run.seed(), Stream::analysis);
  const Batch batch = next_token_batch(s.repeated);
  const Trace t = trace(model, batch.inputs);
  const Cast who = cast(t);
  run.say(head_table(t, rng));
  run.say(fmt::format("previous-token head {}, induction head {}", to_string(who.previous), to_string(who.induction)));
  paths(run, t);
  scores(run, t, who);
  composition(run, t, who);
  eigenvalues(run, t, who);
  const int64_t period = s.config.n_ctx / 3;
  const Trace random = trace(model, begun_with(repeated_random(8, period, 3, s.config.d_vocab - 1, rng), s.bos));
  run.finding(empirical, "T5", "the induction head works on random tokens too", "prefix matching, random tokens x 3",
              prefix_matching_scores(random.patterns[1], random.tokens)[size_t(who.induction.head)], at_least(0.6),
              elhage,
              {{"untrained, best", best(head_scores(Transformer(s.config, run.seed()), random.tokens).prefix)}});
  importance(run, t, model, batch);
  ablation(run, random, t, model, batch);
  const Tensor induction = random.patterns[1].select(1, who.induction.head);
  run.finding(empirical, "T9", "where nothing matches, the induction head rests at the first token",
              "attention to the first token, where the present one is new", resting(induction, random.tokens, false),
              at_least(0.5), elhage, {{"where it is repeated", resting(induction, random.tokens, true)}});
  const int64_t last = t.tokens.T - 1;
  run.say("how the last token of a sequence was predicted: terms, by how much each raises its logit above the mean\n" +
          story(terms_of_prediction(t, 0, last, batch.targets(0, last), 2)));
}

}  // namespace

int main(int argc, char** argv) {
  const Experiment experiment{"two_layers", "What do two layers compute, path by path?", 1500, 300, 12000};
  return run_experiment(argc, argv, experiment, nullptr, two_layers);
}
