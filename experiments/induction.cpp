// Question   Does a two-layer attention-only model form induction heads, suddenly, and does one layer not?
// Model      2 layers of 4 heads, d_model 64, no MLP, biases or LayerNorm; positions reach queries and keys only.
// Task       A segment of distinct tokens repeats, with random length and offset, so that position predicts nothing and
//            only [A][B] ... [A] -> [B] does (experiments/common/tasks.h).
// Controls   The same number of parameters in one layer; no layer; the untrained model; and one layer on the task with a
//            fixed offset, which it does solve: the gap is about induction, not about what one layer can learn.
// Sources    Elhage et al. 2021 (framework), Olsson et al. 2022 (induction heads).
#include <fmt/core.h>

#include <cmath>

#include "experiments/common/curves.h"
#include "experiments/common/measures.h"
#include "experiments/common/tasks.h"

using namespace clearhead;

namespace {
const std::string olsson = "Olsson et al. 2022", elhage = "Elhage et al. 2021", replication = "wul012/aiproj";

struct Settings {
  RepeatedSegment task;  // V = 64, T = 64, segments of 8 to 32 tokens
  int64_t d_model = 64;  // width of the residual stream
  int64_t n_heads = 4;   // per layer; one-layer controls have twice as many, for the same number of parameters
  int64_t batch = 32;    // sequences per step
  double lr = 6e-3;      // AdamW, 100 steps of warm-up, then constant
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
  return {next_token_batch(s.task.sample(256, rng)), next_token_batch(s.task.sample(32, rng)),
          next_token_batch(fixed.sample(256, rng)), repeated_random(8, s.task.T / 3, 3, s.task.V, rng)};
}

Curve fit(Run& run, const std::string& label, Transformer& model, const Settings& s, const RepeatedSegment& task,
          int64_t steps, const Data& data) {
  // Of the controls no transition is to be timed, so they are looked at less often.
  const TrainOptions options{.steps = steps, .lr = s.lr, .log_every = model.config.n_layers == 2 ? 10 : 30};
  const auto batches = [&](Rng& rng) { return next_token_batch(task.sample(s.batch, rng)); };
  return train(run, label, model, batches, options, [&](const Transformer& m) -> nlohmann::json {
    const Predictions p = predict(m, data.watched);
    return {{"accuracy", induction_accuracy(p, data.watched)},
            {"icl_score", icl_score(p)},
            {"prefix_matching", best(head_scores(m, data.probe).prefix)}};
  });
}

// I5: the two measures change together, and within a small part of training.
void phase_change(Run& run, const Curve& two, const Curve& one, const Settings& s) {
  const Rise accuracy = rise(two, "accuracy"), prefix = rise(two, "prefix_matching"), icl = rise(two, "icl_score");
  const double steps = double(run.options().steps), width = accuracy.t90 - accuracy.t10;
  const std::string reported = "one window, 2.5e9 to 5e9 of 1e10 tokens of text (1 to 6 layers, d = 768)";
  run.finding(empirical, "I5", "in-context learning and prefix matching appear together",
              "|t50(ICL score) - t50(prefix matching)| / t50", std::abs(icl.t50 - prefix.t50) / icl.t50, at_most(0.1),
              olsson,
              {{"Spearman over snapshots", rank_correlation(two, "icl_score", "prefix_matching")},
               {"one layer", rank_correlation(one, "icl_score", "prefix_matching")}},
              reported);
  run.finding(empirical, "I5", "and suddenly", "steps from 10 to 90 % of the accuracy / all steps", width / steps,
              at_most(0.25), olsson, {{"t50, million tokens", accuracy.t50 * double(s.batch * s.task.T) / 1e6}},
              reported);
}

void accuracy_gap(Run& run, const Models& m, const Data& data) {
  const auto accuracy = [](const Transformer& model, const Batch& b) {
    return induction_accuracy(predict(model, b), b);
  };
  const double floor = order_blind_accuracy(data.eval), one = accuracy(m.one, data.eval);
  run.finding(empirical, "I6", "two layers copy what followed last time", "accuracy at repeated tokens, two layers",
              accuracy(m.two, data.eval), at_least(0.95), replication,
              {{"one layer", one}, {"no layer", accuracy(m.zero, data.eval)}, {"order-blind", floor}},
              ".937 to .994 (V = 20, T = 64, width 24 to 96, 1,500 steps of 256)");
  run.finding(empirical, "I6", "one layer of as many parameters does not",
              "accuracy of one layer above the best order-blind guess", one - floor, at_most(0.1), replication,
              {{"one layer", one}, {"order-blind", floor}}, ".164 to .180, unigram floor .142 (same setting)");
  run.finding(empirical, "I6", "at a fixed offset one layer suffices (so do not test there)",
              "accuracy of one layer on the fixed-offset task", accuracy(m.one_fixed, data.fixed), at_least(0.95),
              replication, {{"random offsets", accuracy(m.one_fixed, data.eval)}}, "1.000 at widths 16, 32, 64");
}

// I2: on random tokens, which are nothing like the training data but for the repetition, at periods of 8 to 32.
void prefix_matching(Run& run, const Models& m, const Settings& s) {
  double worst = 1, one = 0, untrained = 0, duplicate = 0;
  const std::pair<int64_t, int64_t> periods[] = {{8, 4}, {8, 8}, {12, 3}, {12, 5}, {16, 4}, {25, 2}, {32, 2}};
  for (const auto& [length, repeats] : periods) {
    Rng rng(run.seed(), Stream::analysis, uint64_t(length * 100 + repeats));
    const Tokens tokens = repeated_random(16, length, repeats, s.task.V, rng);
    const HeadScores two = head_scores(m.two, tokens);
    const auto h = size_t(std::ranges::max_element(two.prefix[1]) - two.prefix[1].begin());
    run.say(fmt::format("random tokens, {:>2} x {}: L1H{} scores {:.3f}", length, repeats, h, two.prefix[1][h]));
    worst = std::min(worst, two.prefix[1][h]);
    duplicate = std::max(duplicate, two.duplicate[1][h]);
    one = std::max(one, best(head_scores(m.one, tokens).prefix));
    untrained = std::max(untrained, best(head_scores(m.untrained, tokens).prefix));
  }
  run.finding(empirical, "I2", "a head finds the token that followed last time, on random tokens, at any period",
              "prefix matching, worst of 7 lengths and repeat counts", worst, at_least(0.6), olsson,
              {{"one layer, best", one}, {"untrained, best", untrained}},
              ".94 (pattern head), .75, .85 (13B parameters, 25 tokens x 4 and a start token)");
  run.finding(empirical, "I2", "and not the earlier copy of the token itself",
              "duplicate-token score of that head, worst", duplicate, at_most(0.2), "negative control");
}

// T8, I12: who does what.
void heads(Run& run, const Models& m, const Settings& s) {
  Rng rng(run.seed(), Stream::analysis);
  const Tokens tokens = next_token_batch(s.task.sample(64, rng)).inputs;
  const HeadScores scores = head_scores(m.two, tokens), random = head_scores(m.untrained, tokens);
  run.say(to_string(scores));
  run.finding(empirical, "T8", "a head of layer 0 attends to the previous token",
              "previous-token score, best head of layer 0", best(scores.previous[0]), at_least(0.6), elhage,
              {{"untrained", best(random.previous[0])}, {"best of layer 1", best(scores.previous[1])}},
              "mostly the previous token, less the present one and two back");
  run.finding(empirical, "T8", "a head of layer 1 is an induction head", "prefix matching, best head of layer 1",
              best(scores.prefix[1]), at_least(0.6), elhage, {{"untrained", best(random.prefix[1])}});
  run.finding(empirical, "I12", "induction heads form in the last layer",
              "prefix matching, best of layer 1 minus best of layer 0", best(scores.prefix[1]) - best(scores.prefix[0]),
              at_least(0.3), olsson, {{"best of layer 0", best(scores.prefix[0])}},
              "last layer in small attention-only models");
}

// I10: on the first copy nobody can beat the best predictor that knows the recipe (a lower loss would be a leak of the
// future); on later copies the next token is certain, and the two-layer model knows.
void loss_by_position(Run& run, const Models& m, const Settings& s) {
  Rng rng(run.seed(), Stream::analysis, 1);
  const Tokens sequences = s.task.sample(512, rng);
  const Batch batch = next_token_batch(sequences);
  const Predictions two = predict(m.two, batch), one = predict(m.one, batch);
  const Predictions best{two.B, two.T, {}, s.task.bayes_loss(sequences)};
  run.say("loss by position, two layers / one layer / best possible");
  for (int64_t t : {0, 4, 8, 16, 24, 32, 40, 48, 56, 63})
    run.say(fmt::format("  {:>2}   {:.2f}   {:.2f}   {:.2f}", t, two.mean_loss_at(t), one.mean_loss_at(t),
                        best.mean_loss_at(t)));
  const double first = mean_loss_where(two.loss, batch.inputs, false),
               least = mean_loss_where(best.loss, batch.inputs, false);
  run.finding(identity, "I10", "the first copy is not predicted better than is possible (no leak)",
              "loss above the best possible, first copy, nats", first - least, at_least(-0.03), "control",
              {{"loss", first}, {"best possible", least}, {"ln V", std::log(double(s.task.V))}});
  run.finding(empirical, "I10", "later copies are predicted almost surely", "loss on later copies, two layers, nats",
              mean_loss_where(two.loss, batch.inputs, true), at_most(0.1), olsson,
              {{"one layer", mean_loss_where(one.loss, batch.inputs, true)}});
}

// I13: replace what followed last time (tasks.h), and the prediction must follow.
void swap_test(Run& run, const Models& m, const Settings& s) {
  Rng rng(run.seed(), Stream::analysis, 2);
  const Swapped swapped = swap_sources(next_token_batch(s.task.sample(512, rng)).inputs, s.task.V, rng);
  const double one = follow_rate(m.one, swapped);
  run.finding(empirical, "I13", "swap what followed last time, and the prediction follows", "follow rate, two layers",
              follow_rate(m.two, swapped), at_least(0.9), replication,
              {{"one layer", one}, {"untrained", follow_rate(m.untrained, swapped)}}, ".91 (V = 20, T = 64)");
  run.finding(empirical, "I13", "with one layer it does not", "follow rate, one layer", one, at_most(0.2), replication);
}

void induction(Run& run, const Settings& s) {
  const int64_t steps = run.options().steps;
  run.config = {{"task", to_json(s.task)}, {"d_model", s.d_model}, {"n_heads", s.n_heads},
                {"batch", s.batch},        {"lr", s.lr},           {"steps", steps}};
  run.begin();
  RepeatedSegment fixed = s.task;
  fixed.fixed = true;
  const Data data = make_data(s, fixed, run.seed());
  const auto fresh = [&](int64_t layers) { return Transformer(model_config(s, layers), run.seed()); };
  Models m{fresh(2), fresh(1), fresh(0), fresh(2), fresh(1)};
  const Curve two = fit(run, "two_layers", m.two, s, s.task, steps, data);
  const Curve one = fit(run, "one_layer", m.one, s, s.task, steps, data);
  fit(run, "zero_layers", m.zero, s, s.task, (steps + 3) / 4, data);
  fit(run, "one_layer_fixed_offset", m.one_fixed, s, fixed, (steps + 2) / 3, data);
  save_model(run.path("model.safetensors"), m.two);
  phase_change(run, two, one, s);
  accuracy_gap(run, m, data);
  prefix_matching(run, m, s);
  heads(run, m, s);
  loss_by_position(run, m, s);
  swap_test(run, m, s);
}
}  // namespace

int main(int argc, char** argv) {
  const std::string question = "Does a two-layer attention-only model form induction heads, and does one layer not?";
  return run_experiment(argc, argv, {"induction", question, 1500, 300}, nullptr,
                        [](Run& run) { induction(run, Settings()); });
}
