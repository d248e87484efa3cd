// Question   A -> B, C -> D, A -> ?: what can be learned from a prompt, and what cannot? ("E -> F", says an article.)
// Model      Two layers of four heads, d_model 64, attention only.
// Task       "A -> B C -> D A -> B ..": a dictionary of 2 to 8 pairs of letters, drawn anew for every sequence, whose pairs
//            come again in random order; in half of the sequences without arrows. A tenth of all pairs is held out, and
//            eight letters never occur at all.
// Controls   One layer; the untrained model; arrows in all sequences; and a model that was trained on repeated segments.
//            That one has plain induction heads, which match one token: after the last arrow they find all earlier arrows,
//            and so all earlier answers. To tell them apart takes the token before the arrow, on both sides.
// Sources    An article on induction heads (E -> F); Olsson et al. 2022; Brown et al. 2020 (number of shots).
#include <fmt/core.h>

#include "experiments/common/dictionaries.h"
#include "experiments/common/settings.h"
#include "experiments/common/tasks.h"

using namespace clearhead;

namespace {
const std::string article = "article on induction heads", olsson = "Olsson et al. 2022";

std::string table(const Transformer& model, int64_t n, uint64_t seed) {
  std::string text = "accuracy by the number of lines:";
  for (int64_t k = 1; k <= 12; ++k)
    text += fmt::format(" {}: {:.2f}", k, ask(model, prompts(k, Ask::seen, seed)).right);
  text += fmt::format("\n{} lines, of which one is shown several times, and asked for", n);
  text += "\n  shots   accuracy   P(value)   with another value after that: first value is best guess, last value is";
  for (int64_t shots = 1; shots <= 4; ++shots) {
    const Answers a = ask(model, prompts(n, Ask::seen, seed, shots));
    Prompts q = prompts(n, Ask::seen, seed, shots, true);
    const double first = ask(model, q).right;
    q.answers = q.rivals;
    text += fmt::format("\n  {:>5}   {:8.3f}   {:8.3f}   {:>59.3f} {:14.3f}", shots, a.right, a.p, first,
                        ask(model, q).right);
  }
  return text;
}

void icl(Run& run) {
  run.config = {{"steps", run.options().steps}};
  run.begin();
  Config c;
  c.d_vocab = dictionary_V;
  Transformer model(c, run.seed()), one(one_layer_of(c), run.seed()), plain(c, run.seed()), arrows_only(c, run.seed());
  const Transformer untrained(c, run.seed());
  const TrainOptions options{.steps = run.options().steps, .lr = 3e-3, .cosine = true};
  const auto half = [](Rng& rng) { return dictionary_lines(32, 0.5, rng); };
  train(run, "two_layers", model, half, options);
  train(run, "one_layer", one, half, options);
  train(
      run, "arrows_only", arrows_only, [](Rng& rng) { return dictionary_lines(32, 1, rng); }, options);
  train(
      run, "repeated_segments", plain,
      [](Rng& r) { return next_token_batch(RepeatedSegment{.V = dictionary_V}.sample(32, r)); }, options);
  save_model(run.path("model.safetensors"), model);

  const int64_t n = 6;
  const Prompts seen = prompts(n, Ask::seen, run.seed());
  const auto accuracy = [&](Ask what) { return ask(model, prompts(n, what, run.seed())).right; };
  const double right = accuracy(Ask::seen), unseen_pairs = accuracy(Ask::unseen_pairs),
               untrained_keys = accuracy(Ask::untrained_keys), untrained_values = accuracy(Ask::untrained_values);
  run.say(
      fmt::format("prompts of {} lines, each shown once; accuracy with\n"
                  "  pairs as in training {:.3f}, held-out pairs {:.3f}, lines of other letters between {:.3f}\n"
                  "  letters that never occurred: as keys {:.3f}, as values {:.3f}",
                  n, right, unseen_pairs, accuracy(Ask::distractors), untrained_keys, untrained_values));
  run.say(table(model, n, run.seed()));

  run.finding(empirical, "S3", "a key that was shown once gets its value", "accuracy, 6 lines", right, at_least(0.95),
              article,
              {{"one layer", ask(one, seen).right},
               {"arrows only", ask(arrows_only, seen).right},
               {"one-token matching", 1.0 / n},
               {"untrained", ask(untrained, seen).right}});
  run.finding(empirical, "S6", "also pairs that never occurred in training", "accuracy, held-out pairs", unseen_pairs,
              at_least(0.95), article, {}, "\"hard to generalize to unseen patterns\"");
  run.finding(empirical, "S6", "but not letters that never occurred", "accuracy, untrained values", untrained_values,
              at_most(0.1), "control", {{"untrained keys", untrained_keys}});
  const Answers unseen = ask(model, prompts(n, Ask::unseen_key, run.seed()));
  run.finding(empirical, "S3", "E -> F cannot be learned from A -> B and C -> D: F is no likelier than any letter",
              "P(F) V, after a key that was not shown", unseen.p * dictionary_V, at_most(2), article,
              {{"P(one of the values shown)", unseen.p_values}}, "\"so predicts F\"");
  const Looks now = looks(model, seen), one_token = looks(plain, seen);
  run.finding(empirical, "S3", "from the last arrow, a head finds the answer to this key, not all answers",
              "attention to the right answer / to all answers, best head of layer 1", now.right / now.all,
              at_least(0.8), olsson, {{"attention to all answers", now.all}});
  run.finding(
      empirical, "S3", "while plain induction heads match the arrow, and find all answers",
      "the same, of a model trained on repeated segments", one_token.right / one_token.all, at_most(0.4), olsson,
      {{"attention to all answers", one_token.all}, {"1 / lines", 1.0 / n}, {"its accuracy", ask(plain, seen).right}});
}
}  // namespace

int main(int argc, char** argv) {
  return run_experiment(argc, argv, {"icl", "A -> B, C -> D, A -> ?: what is learned from a prompt?", 4000, 300},
                        nullptr, icl);
}
