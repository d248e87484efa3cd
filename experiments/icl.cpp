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

#include "experiments/common/measures.h"
#include "experiments/common/settings.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {
const std::string article = "article on induction heads", olsson = "Olsson et al. 2022";
constexpr int32_t letters = 56, never = 8, arrow = letters + never, V = arrow + 1;

struct Pair {
  int32_t key, value;
};
using Pairs = std::vector<Pair>;
bool held_out(const Pair& p) { return (7 * p.key + 11 * p.value) % 10 == 0; }

// n pairs of 2 n different letters; all held out, or none.
Pairs dictionary(int64_t n, bool unseen, Rng& rng) {
  Pairs pairs;
  std::vector<bool> used(letters);
  while (int64_t(pairs.size()) < n) {
    const Pair p{int32_t(rng.below(letters)), int32_t(rng.below(letters))};
    if (p.key == p.value || used[size_t(p.key)] || used[size_t(p.value)] || held_out(p) != unseen) continue;
    used[size_t(p.key)] = used[size_t(p.value)] = true;
    pairs.push_back(p);
  }
  return pairs;
}

// Pairs of a dictionary of 2 to 8, in this share of the sequences with arrows. The loss counts the values of keys that
// occurred before: nothing else can be known.
Batch lines(int64_t B, double with_arrows, Rng& rng) {
  constexpr int64_t T = 64;
  Batch batch{Tokens(B, T), Tokens(B, T)};
  std::ranges::fill(batch.targets.ids, -1);
  for (int64_t b = 0; b < B; ++b) {
    const Pairs pairs = dictionary(2 + rng.below(7), false, rng);
    const int64_t per_line = rng.uniform() < with_arrows ? 3 : 2;
    std::vector<bool> known(pairs.size());
    for (int64_t t = 0; t < T; t += per_line) {
      const auto i = size_t(rng.below(int64_t(pairs.size())));
      const int32_t line[] = {pairs[i].key, per_line == 3 ? arrow : pairs[i].value, pairs[i].value};
      for (int64_t j = 0; j < per_line && t + j < T; ++j) batch.inputs(b, t + j) = line[j];
      const int64_t before_value = t + per_line - 2;
      if (known[i] && before_value < T) batch.targets(b, before_value) = pairs[i].value;
      known[i] = true;
    }
  }
  return batch;
}

// Prompts: each of n lines once, then "key ->".
struct Prompts {
  Tokens tokens;
  std::vector<Pairs> pairs;      // of each prompt
  std::vector<int32_t> answers;  // the value that was shown; for an unseen key: some letter that does not occur
  std::vector<int64_t> shown;    // where the answer stands; -1: nowhere
};
enum class Ask { seen, unseen_pairs, distractors, unseen_key, untrained_values, untrained_keys };

Prompts prompts(int64_t n, Ask ask, uint64_t seed) {
  Rng rng(seed, Stream::eval, uint64_t(n * 10 + int64_t(ask)));
  const int64_t B = 512, per_line = ask == Ask::distractors ? 6 : 3;
  Prompts p{Tokens(B, per_line * n + 2), {}, {}, {}};
  for (int64_t b = 0; b < B; ++b) {
    Pairs pairs = dictionary(n + 1, ask == Ask::unseen_pairs, rng);  // the last one is not shown
    for (int64_t i = 0; i < n; ++i) {
      if (ask == Ask::untrained_values) pairs[size_t(i)].value = letters + int32_t(i % never);
      if (ask == Ask::untrained_keys) pairs[size_t(i)].key = letters + int32_t(i % never);
    }
    std::vector<int32_t> text;
    const int64_t asked = ask == Ask::unseen_key ? n : rng.below(n);
    p.shown.push_back(-1);
    for (int64_t i = 0; i < n; ++i) {
      if (i == asked) p.shown.back() = int64_t(text.size()) + 2;
      text.insert(text.end(), {pairs[size_t(i)].key, arrow, pairs[size_t(i)].value});
      for (int64_t j = 0; ask == Ask::distractors && j < 3; ++j) text.push_back(int32_t(rng.below(letters)));
    }
    text.insert(text.end(), {pairs[size_t(asked)].key, arrow});
    std::ranges::copy(text, p.tokens.ids.begin() + b * p.tokens.T);
    p.answers.push_back(pairs[size_t(asked)].value);
    pairs.resize(size_t(n));
    p.pairs.push_back(pairs);
  }
  return p;
}

struct Answers {
  double right = 0, p = 0, p_values = 0;  // best guess; probabilities of the answer, and of all values that were shown
};
Answers ask(const Transformer& model, const Prompts& q) {
  const NoGrad no_grad;
  const Tensor p = softmax(model.logits(q.tokens).value().select(1, q.tokens.T - 1));  // [B, V]
  Answers a;
  for (int64_t b = 0; b < q.tokens.B; ++b) {
    const Tensor row = p.select(0, b);
    const double n = double(q.tokens.B), answer = double(row.at({q.answers[size_t(b)]}));
    a.right += (answer == double(*std::ranges::max_element(row.flat()))) / n, a.p += answer / n;
    for (const Pair& pair : q.pairs[size_t(b)]) a.p_values += double(row.at({pair.value})) / n;
  }
  return a;
}

// Attention from the last arrow, to the right answer and to all answers: of the head that gives the right one most.
struct Looks {
  double right = 0, all = 0;
};
Looks looks(const Transformer& model, const Prompts& q) {
  const NoGrad no_grad;
  Probe probe;
  probe.capture("blocks.1.attn.pattern");
  model.stream(q.tokens, probe);
  const Tensor& pattern = probe["blocks.1.attn.pattern"];
  Looks best_one;
  for (int64_t h = 0; h < model.config.n_heads; ++h) {
    Looks l;
    for (int64_t b = 0; b < q.tokens.B; ++b)
      for (int64_t t = 2; t < q.tokens.T; t += 3) {
        const double a = double(pattern.at({b, h, q.tokens.T - 1, t})) / double(q.tokens.B);
        l.all += a, l.right += t == q.shown[size_t(b)] ? a : 0;
      }
    if (l.right > best_one.right) best_one = l;
  }
  return best_one;
}

void icl(Run& run) {
  run.config = {{"steps", run.options().steps}};
  run.begin();
  Config c;
  c.d_vocab = V;
  Transformer model(c, run.seed()), one(one_layer_of(c), run.seed()), plain(c, run.seed()), arrows_only(c, run.seed());
  const Transformer untrained(c, run.seed());
  const TrainOptions options{.steps = run.options().steps, .lr = 3e-3, .cosine = true};
  const auto half = [](Rng& rng) { return lines(32, 0.5, rng); };
  train(run, "two_layers", model, half, options);
  train(run, "one_layer", one, half, options);
  train(
      run, "arrows_only", arrows_only, [](Rng& rng) { return lines(32, 1, rng); }, options);
  train(
      run, "repeated_segments", plain, [](Rng& r) { return next_token_batch(RepeatedSegment{.V = V}.sample(32, r)); },
      options);
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
  std::string by_lines = "accuracy by the number of lines:";
  for (int64_t k = 1; k <= 12; ++k)
    by_lines += fmt::format(" {}: {:.2f}", k, ask(model, prompts(k, Ask::seen, run.seed())).right);
  run.say(by_lines);

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
              "P(F) V, after a key that was not shown", unseen.p * V, at_most(2), article,
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
