// Question   Does a two-layer attention-only model form induction heads, suddenly, and does one layer not?
// Model      2 layers of 4 heads, d_model 64, no MLP, biases or LayerNorm; positions reach queries and keys only.
// Task       A segment of distinct tokens repeats, with random length and offset, so that position predicts nothing and only
//            [A][B] ... [A] -> [B] does (experiments/common/tasks.h).
// Controls   The same number of parameters in one layer; no layer; the untrained model; and one layer on the fixed-offset
//            version of the task, which it does solve: the gap is about induction, not about what one layer can learn.
// Sources    Elhage et al. 2021 (framework), Olsson et al. 2022 (induction heads).
#include <fmt/core.h>

#include <cmath>

#include "experiments/common/measures.h"
#include "experiments/common/tasks.h"

using namespace clearhead;

namespace {

struct Settings {
  RepeatedSegment task;    // V = 64, T = 64, segments of 8 to 32 tokens
  int64_t d_model = 64;    // width of the residual stream
  int64_t n_heads = 4;     // per layer; one-layer controls have twice as many, for the same number of parameters
  int64_t batch = 32;      // sequences per step
  double lr = 6e-3;        // AdamW, 100 steps of warm-up, then constant
};

struct Models {
  Transformer two, one, zero, untrained, one_fixed;
};

Config model_config(const Settings& s, int64_t layers) {
  Config c;
  c.d_vocab = s.task.V, c.n_ctx = s.task.T, c.d_model = s.d_model, c.d_head = s.d_model / s.n_heads;
  c.n_layers = layers, c.n_heads = layers == 1 ? 2 * s.n_heads : s.n_heads;
  return c;
}

// Evaluation data of a run, all from the evaluation stream.
struct Data {
  Batch eval, watched, fixed;
  Tokens probe;  // uniformly random tokens, repeated: nothing like the training data but for the repetition
};

Data make_data(const Settings& s, const RepeatedSegment& fixed, uint64_t seed) {
  Rng rng(seed, Stream::eval);
  return {next_token_batch(s.task.sample(256, rng)), next_token_batch(s.task.sample(32, rng)), next_token_batch(fixed.sample(256, rng)),
          repeated_random(8, s.task.T / 3, 3, s.task.V, rng)};
}

Curve fit(Run& run, const std::string& label, Transformer& model, const Settings& s, const RepeatedSegment& task, int64_t steps,
          const Data& data) {
  const TrainOptions options{.steps = steps, .lr = s.lr, .log_every = 10};
  return train(run, label, model, [&](Rng& rng) { return next_token_batch(task.sample(s.batch, rng)); }, options,
               [&](const Transformer& m) -> nlohmann::json {
                 const Predictions p = predict(m, data.watched);
                 return {{"accuracy", induction_accuracy(p, data.watched)}, {"icl_score", icl_score(p)},
                         {"prefix_matching", best(head_scores(m, data.probe).prefix)}};
               });
}

void phase_change(Run& run, const Curve& two, const Curve& one, const Settings& s) {
  const Rise accuracy = rise(two, "accuracy"), prefix = rise(two, "prefix_matching"), icl = rise(two, "icl_score");
  run.say(fmt::format("two layers: accuracy is halfway at step {:.0f} ({:.2f} M tokens), and goes from 10 to 90 % in {:.0f} steps",
                      accuracy.t50, accuracy.t50 * double(s.batch * s.task.T) / 1e6, accuracy.t90 - accuracy.t10));
  const std::string source = "Olsson et al. 2022";
  run.add({.id = "I5", .claim = "in-context learning and prefix matching appear together", .kind = "empirical",
           .metric = "|t50(ICL score) - t50(prefix matching)| / t50", .value = std::abs(icl.t50 - prefix.t50) / icl.t50, .op = "<=",
           .threshold = 0.1, .controls = {{"t50 ICL", icl.t50}, {"t50 prefix", prefix.t50}, {"10-90 % width, accuracy", accuracy.t90 - accuracy.t10}},
           .reported = "same window, 2.5e9 to 5e9 tokens of text (1 to 6 layers, d = 768)", .source = source});
  run.add({.id = "I5", .claim = "the two measures go hand in hand through training", .kind = "empirical",
           .metric = "Spearman(ICL score, prefix matching) over snapshots", .value = rank_correlation(two, "icl_score", "prefix_matching"),
           .op = "<=", .threshold = -0.9, .controls = {{"one layer", rank_correlation(one, "icl_score", "prefix_matching")}},
           .source = source});
}

void accuracy_gap(Run& run, const Models& m, const Data& data) {
  const auto accuracy = [](const Transformer& model, const Batch& b) { return induction_accuracy(predict(model, b), b); };
  const double floor = order_blind_accuracy(data.eval), one = accuracy(m.one, data.eval);
  run.add({.id = "I6", .claim = "two layers copy what followed last time", .kind = "empirical", .metric = "accuracy at repeated tokens, two layers",
           .value = accuracy(m.two, data.eval), .op = ">=", .threshold = 0.95,
           .controls = {{"one layer", one}, {"no layer", accuracy(m.zero, data.eval)}, {"untrained", accuracy(m.untrained, data.eval)},
                        {"order-blind", floor}},
           .reported = ".937 to .994 (V = 20, T = 64, width 24 to 96, 1,500 steps of 256)", .source = "replication with K = 20"});
  run.add({.id = "I6", .claim = "one layer of as many parameters does not", .kind = "empirical",
           .metric = "accuracy of one layer above the best order-blind guess", .value = one - floor, .op = "<=", .threshold = 0.1,
           .controls = {{"one layer", one}, {"order-blind", floor}}, .reported = ".164 to .180, unigram floor .142 (same setting)",
           .source = "replication with K = 20"});
  run.add({.id = "I6", .claim = "at a fixed offset one layer suffices (so do not test there)", .kind = "empirical",
           .metric = "accuracy of one layer on the fixed-offset task", .value = accuracy(m.one_fixed, data.fixed), .op = ">=",
           .threshold = 0.95, .controls = {{"same model, random offsets", accuracy(m.one_fixed, data.eval)}},
           .reported = "1.000 at widths 16, 32, 64", .source = "replication with K = 20"});
}

void heads(Run& run, const Models& m, const Settings& s) {
  double worst = 1, one = 0, untrained = 0, duplicate = 0;
  for (const auto& [length, repeats] : {std::pair<int64_t, int64_t>{8, 4}, {8, 8}, {12, 3}, {12, 5}, {16, 4}, {25, 2}, {32, 2}}) {
    Rng rng(run.seed(), Stream::analysis, uint64_t(length * 100 + repeats));
    const Tokens tokens = repeated_random(16, length, repeats, s.task.V, rng);
    const HeadScores two = head_scores(m.two, tokens);
    const auto h = size_t(std::ranges::max_element(two.prefix[1]) - two.prefix[1].begin());
    run.say(fmt::format("random tokens, {:>2} x {}: prefix matching L1H{} {:.3f}, its duplicate-token score {:.3f}", length, repeats, h,
                        two.prefix[1][h], two.duplicate[1][h]));
    worst = std::min(worst, two.prefix[1][h]);
    duplicate = std::max(duplicate, two.duplicate[1][h]);
    one = std::max(one, best(head_scores(m.one, tokens).prefix));
    untrained = std::max(untrained, best(head_scores(m.untrained, tokens).prefix));
  }
  run.add({.id = "I2", .claim = "a head finds the token that followed last time, on random tokens, at any period", .kind = "empirical",
           .metric = "prefix matching, worst of 7 lengths and repeat counts", .value = worst, .op = ">=", .threshold = 0.6,
           .controls = {{"one layer, best", one}, {"untrained, best", untrained}},
           .reported = ".94 (pattern head), .75, .85 (13B parameters, 25 tokens x 4 and a start token)", .source = "Olsson et al. 2022"});
  run.add({.id = "I2", .claim = "and not the earlier copy of the token itself", .kind = "empirical", .metric = "duplicate-token score of that head, worst",
           .value = duplicate, .op = "<=", .threshold = 0.2, .source = "negative control"});

  Rng rng(run.seed(), Stream::analysis);
  const Tokens tokens = next_token_batch(s.task.sample(64, rng)).inputs;
  const HeadScores scores = head_scores(m.two, tokens), random = head_scores(m.untrained, tokens);
  for (size_t l = 0; l < 2; ++l)
    for (size_t h = 0; h < scores.prefix[l].size(); ++h)
      run.say(fmt::format("L{}H{}   previous token {:.3f}   duplicate token {:.3f}   prefix matching {:.3f}", l, h, scores.previous[l][h],
                          scores.duplicate[l][h], scores.prefix[l][h]));
  run.add({.id = "T8", .claim = "a head of layer 0 attends to the previous token", .kind = "empirical", .metric = "previous-token score, best head of layer 0",
           .value = best(scores.previous[0]), .op = ">=", .threshold = 0.6, .controls = {{"untrained", best(random.previous[0])}, {"best of layer 1", best(scores.previous[1])}},
           .reported = "mostly the previous token, less the present one and two back", .source = "Elhage et al. 2021"});
  run.add({.id = "T8", .claim = "a head of layer 1 is an induction head", .kind = "empirical", .metric = "prefix matching, best head of layer 1",
           .value = best(scores.prefix[1]), .op = ">=", .threshold = 0.6, .controls = {{"untrained", best(random.prefix[1])}}, .source = "Elhage et al. 2021"});
  run.add({.id = "I12", .claim = "induction heads form in the last layer", .kind = "empirical", .metric = "prefix matching, best of layer 1 minus best of layer 0",
           .value = best(scores.prefix[1]) - best(scores.prefix[0]), .op = ">=", .threshold = 0.3, .controls = {{"best of layer 0", best(scores.prefix[0])}},
           .reported = "last layer in small attention-only models", .source = "Olsson et al. 2022"});
}

// I10: on the first copy nobody can beat the best predictor that knows the recipe (a lower loss would be a leak of the future);
// on later copies the next token is certain, and the two-layer model knows.
void loss_by_position(Run& run, const Models& m, const Settings& s) {
  Rng rng(run.seed(), Stream::analysis, 1);
  const Tokens sequences = s.task.sample(512, rng);
  const Batch batch = next_token_batch(sequences);
  const std::vector<double> bayes = s.task.bayes_loss(sequences);
  const auto source = induction_sources(batch.inputs);
  const auto mean_where = [&](const std::vector<double>& loss, bool repeated) {
    double sum = 0, n = 0;
    for (size_t i = 0; i < loss.size(); ++i)
      if ((source[i] >= 0) == repeated) sum += loss[i], ++n;
    return sum / n;
  };
  const Predictions two = predict(m.two, batch), one = predict(m.one, batch);
  std::string line = "loss by position, two layers / one layer / best possible:";
  for (int64_t t : {0, 4, 8, 16, 24, 32, 40, 48, 56, 63}) {
    const Predictions best{two.B, two.T, {}, bayes};
    line += fmt::format("\n  {:>2}   {:.2f}   {:.2f}   {:.2f}", t, two.mean_loss_at(t), one.mean_loss_at(t), best.mean_loss_at(t));
  }
  run.say(line);
  const double first = mean_where(two.loss, false), best = mean_where(bayes, false);
  run.add({.id = "I10", .claim = "the first copy is not predicted better than is possible (no leak)", .kind = "identity",
           .metric = "loss above the best possible, first copy, nats", .value = first - best, .op = ">=", .threshold = -0.03,
           .controls = {{"loss", first}, {"best possible", best}, {"ln V", std::log(double(s.task.V))}}, .source = "control"});
  run.add({.id = "I10", .claim = "later copies are predicted almost surely", .kind = "empirical", .metric = "loss on later copies, two layers, nats",
           .value = mean_where(two.loss, true), .op = "<=", .threshold = 0.1, .controls = {{"one layer", mean_where(one.loss, true)}},
           .source = "Olsson et al. 2022"});
}

// I13: replace the token that followed last time by another one: the prediction must follow.
void swap_test(Run& run, const Models& m, const Settings& s) {
  Rng rng(run.seed(), Stream::analysis, 2);
  Tokens x = next_token_batch(s.task.sample(512, rng)).inputs;
  const auto source = induction_sources(x);
  std::vector<std::pair<size_t, int32_t>> expected;  // position, new token
  for (int64_t b = 0; b < x.B; ++b) {
    const int64_t t = x.T / 2 + rng.below(x.T / 2), i = b * x.T + t;
    if (source[size_t(i)] < 0 || source[size_t(i)] >= t) continue;
    int32_t token;  // one that does not occur, so that nothing else in the sequence speaks for it
    do token = int32_t(rng.below(s.task.V));
    while (std::find(x.ids.begin() + b * x.T, x.ids.begin() + (b + 1) * x.T, token) != x.ids.begin() + (b + 1) * x.T);
    x(b, source[size_t(i)]) = token;
    expected.emplace_back(size_t(i), token);
  }
  const auto follows = [&](const Transformer& model) {
    const Predictions p = predict(model, {x, x});
    return double(std::ranges::count_if(expected, [&](const auto& e) { return p.best[e.first] == e.second; })) / double(expected.size());
  };
  const double one = follows(m.one);
  run.add({.id = "I13", .claim = "swap what followed last time, and the prediction follows", .kind = "empirical", .metric = "follow rate, two layers",
           .value = follows(m.two), .op = ">=", .threshold = 0.9, .controls = {{"one layer", one}, {"untrained", follows(m.untrained)}},
           .reported = ".91 (V = 20, T = 64)", .source = "replication with K = 20"});
  run.add({.id = "I13", .claim = "with one layer it does not", .kind = "empirical", .metric = "follow rate, one layer", .value = one, .op = "<=", .threshold = 0.2,
           .source = "replication with K = 20"});
}

}  // namespace

int main(int argc, char** argv) {
  const Settings s;
  return run_experiment(argc, argv, {.name = "induction", .question = "Does a two-layer attention-only model form induction heads, and does one layer not?",
                                     .steps = 1500, .quick_steps = 300}, nullptr, [&](Run& run) {
    run.config = {{"V", s.task.V}, {"T", s.task.T}, {"shortest", s.task.shortest}, {"longest", s.task.longest}, {"d_model", s.d_model},
                  {"n_heads", s.n_heads}, {"batch", s.batch}, {"lr", s.lr}, {"steps", run.options().steps}};
    run.begin();
    RepeatedSegment fixed = s.task;
    fixed.fixed = true;
    const Data data = make_data(s, fixed, run.seed());
    const auto fresh = [&](int64_t layers) { return Transformer(model_config(s, layers), run.seed()); };
    Models m{fresh(2), fresh(1), fresh(0), fresh(2), fresh(1)};
    const int64_t steps = run.options().steps;
    const Curve two = fit(run, "two_layers", m.two, s, s.task, steps, data), one = fit(run, "one_layer", m.one, s, s.task, steps, data);
    fit(run, "zero_layers", m.zero, s, s.task, std::max<int64_t>(1, steps / 4), data);
    fit(run, "one_layer_fixed", m.one_fixed, s, fixed, std::max<int64_t>(1, steps / 2), data);
    save_model(run.path("model.safetensors"), m.two);
    phase_change(run, two, one, s);
    accuracy_gap(run, m, data);
    heads(run, m, s);
    loss_by_position(run, m, s);
    swap_test(run, m, s);
  });
}
