// Question   A B C A B: how do two attention layers know that C is next?
// Model      Two heads in a row, the first feeding only the keys of the second (nn/induction_head.h), as an article on
//            induction heads has them. It runs them untrained, without positions and without a mask, on one-hot letters.
// Expected   As printed: right by chance; and no training could help, since "A B C A B" and "A C B A B" are the same to
//            it. With positions, a mask, a residual stream, and training: every triple, also those never seen, by a
//            previous-token head and one that looks for what followed last time (Elhage et al. 2021).
// Controls   Training without positions, and without positions and mask; the untrained module.
#include <fmt/core.h>

#include <cmath>

#include "experiments/common/measures.h"
#include "experiments/common/tasks.h"
#include "experiments/common/train.h"
#include "nn/circuits/heads.h"
#include "nn/induction_head.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {
const std::string article = "article on induction heads", elhage = "Elhage et al. 2021";
constexpr int64_t letters = 26;

// 1. As printed: three letters, one-hot; d_k = d_v = 2; a linear layer reads the three letters off the second head.
struct Printed {
  InductionHead head;
  Linear read_out;
  FIELDS(head, read_out)

  // PyTorch's nn.Linear starts from the uniform distribution between -1 and 1 over sqrt(inputs), biases too.
  explicit Printed(Rng rng) : head(3, 2, 2, rng, /*causal=*/false), read_out(2, 3, rng) {
    for (Linear* l : {&head.q1, &head.k1, &head.v1, &head.q2, &head.k2, &head.v2, &read_out})
      for (Tensor t : {l->W.value(), l->b->value()})
        for (Real& x : t.mut()) x = Real((2 * rng.uniform() - 1) / std::sqrt(double(l->W.dim(0))));
  }
  Tensor operator()(const Tokens& tokens, Probe& probe) const {
    const Var one_hot = embedding(Tensor::from({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}), tokens);
    return read_out(head(one_hot, one_hot, probe)).value();
  }
};

Tokens sequence(const std::vector<int32_t>& ids) {
  Tokens t(1, int64_t(ids.size()));
  return t.ids = ids, t;
}

void as_printed(Run& run) {
  const NoGrad no_grad;
  const int64_t inits = 3000;
  const Tokens abcab = sequence({0, 1, 2, 0, 1}), acbab = sequence({0, 2, 1, 0, 1});
  int64_t right = 0, both = 0;
  double difference = 0, to_earlier_b = 0, to_first_a = 0;
  for (int64_t i = 0; i < inits; ++i) {
    const Printed model(Rng(run.seed(), Stream::analysis, uint64_t(i)));
    Probe probe, other;
    probe.capture("*");
    const Tensor p = model(abcab, probe).select(1, 4).contiguous(), q = model(acbab, other).select(1, 4).contiguous();
    const auto guess = [](const Tensor& x) { return std::ranges::max_element(x.flat()) - x.flat().begin(); };
    right += guess(p) == 2, both += guess(p) == 2 && guess(q) == 0;
    difference = std::max(difference, double(max_abs_diff(p, q)));
    to_earlier_b += double(probe["induction_head.pattern1"].at({0, 0, 4, 1})) / double(inits);
    to_first_a += double(probe["induction_head.pattern2"].at({0, 0, 4, 0})) / double(inits);
  }
  const double share = double(right) / double(inits);
  run.say(fmt::format(
      "1. As printed (one correction: its K2 has d_model inputs but is given d_v numbers, which PyTorch refuses).\n"
      "   Untrained, over {} initializations: A B C A B -> C in {:.3f} of them. The first layer gives the earlier B\n"
      "   {:.3f} of its attention, the second gives A {:.3f}; one of five positions is .2. Nothing was found.\n"
      "   A B C A B and A C B A B: without positions and mask, order means nothing: the last outputs differ\n"
      "   by {:.0e}. Both right: {} times.",
      inits, share, to_earlier_b, to_first_a, difference, both));
  run.finding(planted, "S2", "the article's module, untrained, is right by chance",
              "|right - 1/3|, 3,000 initializations", std::abs(share - 1.0 / 3), at_most(0.05), article,
              {{"right", share}}, "\"Predicted token\", one run");
  run.finding(identity, "S2", "A B C A B and A C B A B are the same to it: no training can help",
              "largest difference of the last outputs, 3,000 initializations", difference, at_most(1e-6), article,
              {{"both right, times", double(both)}});
}

// 2. Trained, with what was missing.
struct Copier {
  bool positions;
  Embedding embed;
  PosEmbedding pos;
  InductionHead head;
  Linear W_O;
  Unembedding unembed;
  FIELDS(embed, pos, head, W_O, unembed)

  Copier(const Config& c, Rng rng, bool with_positions, bool causal)
      : positions(with_positions),
        embed(c, rng),
        pos(c, rng),
        head(c.d_model, c.d_head, c.d_head, rng, causal),
        W_O(c.d_head, c.d_model, rng, /*bias=*/false),
        unembed(c, rng) {}
  Var stream(const Tokens& tokens, Probe& probe, Rng* drop = nullptr) const {
    const Var x = embed(tokens);
    return x + W_O(head(x, positions ? x + pos(tokens.B, tokens.T) : x, probe, drop));
  }
};

bool held_out(int64_t a, int64_t b, int64_t c) { return (a * 7 + b * 11 + c * 3) % 10 == 0; }

// Segments of 3 to 8 letters that repeat, at random offsets, without the triples that are held out.
Batch repeats(Rng& rng, int64_t B) {
  const RepeatedSegment task{.V = letters, .T = 16, .shortest = 3, .longest = 8};
  Tokens out(B, task.T + 1);
  for (int64_t b = 0; b < B;) {
    const Tokens s = task.sample(1, rng);
    bool allowed = true;
    for (int64_t t = 2; t < s.T; ++t) allowed &= !held_out(s(0, t - 2), s(0, t - 1), s(0, t));
    if (allowed) std::ranges::copy(s.ids, out.ids.begin() + b++ * s.T);
  }
  return next_token_batch(out);
}

// A B C A B -> C for every ordered triple of different letters.
struct Score {
  double right = 0, unseen_right = 0, p = 0, to_a = 0, to_c = 0;  // at the last position; what the second head gives
  double previous, same;                                          // scores of the first head
};
Score all_triples(const Copier& model) {
  const NoGrad no_grad;
  std::vector<int32_t> ids, next;
  for (int32_t a = 0; a < letters; ++a)
    for (int32_t b = 0; b < letters; ++b)
      for (int32_t c = 0; c < letters; ++c)
        if (a != b && b != c && a != c) ids.insert(ids.end(), {a, b, c, a, b}), next.push_back(c);
  Tokens tokens(int64_t(next.size()), 5);
  tokens.ids = ids;
  Probe probe;
  probe.capture("*pattern*");
  const Tensor p = softmax(model.unembed(model.stream(tokens, probe)).value());
  const Tensor &one = probe["induction_head.pattern1"], &two = probe["induction_head.pattern2"];
  double unseen = 0;
  Score s{.previous = previous_token_scores(one)[0], .same = duplicate_token_scores(one, tokens)[0]};
  for (int64_t i = 0; i < tokens.B; ++i) {
    const Tensor row = p.select(0, i).select(0, 4);
    const double n = double(tokens.B), p_next = double(row.at({next[size_t(i)]}));
    const bool right = p_next == double(*std::ranges::max_element(row.flat()));
    s.right += right / n, s.p += p_next / n, s.to_a += double(two.at({i, 0, 4, 0})) / n,
        s.to_c += double(two.at({i, 0, 4, 2})) / n;
    if (held_out(tokens(i, 0), tokens(i, 1), tokens(i, 2))) s.unseen_right += right, ++unseen;
  }
  s.unseen_right /= unseen;
  return s;
}

std::string table(const Copier& model) {
  const NoGrad no_grad;
  Probe probe;
  probe.capture("*");
  model.stream(sequence({0, 1, 2, 0, 1}), probe);
  const auto of = [&](const std::string& head) {
    return pattern_table(probe["induction_head.pattern" + head].select(0, 0).select(0, 0), {"A", "B", "C", "A", "B"});
  };
  return "the first head looks at\n" + of("1") + "\nthe second head looks at\n" + of("2");
}

Score fit(Run& run, const std::string& label, bool positions, bool causal) {
  Config c;
  c.d_vocab = letters, c.d_model = 32, c.d_head = 32, c.n_ctx = 16;
  Copier model(c, Rng(run.seed(), Stream::init), positions, causal);
  const Trainee trainee{named_params(model), to_json(c), [&](const Batch& batch, Rng& drop) {
                          Probe none;
                          return model.unembed.loss(model.stream(batch.inputs, none, &drop), batch.targets, true);
                        }};
  train(run, label, trainee, [](Rng& rng) { return repeats(rng, 32); }, {.steps = run.options().steps, .lr = 6e-3});
  if (positions) run.say("\n2. Trained, with positions, mask and residual stream:\n" + table(model));
  return all_triples(model);
}

void copy(Run& run) {
  run.config = {{"steps", run.options().steps}};
  run.begin();
  as_printed(run);
  const Score full = fit(run, "positions_and_mask", true, true), none = fit(run, "as_printed", false, false),
              mask = fit(run, "mask_only", false, true);
  const auto finding = [&](const std::string& claim, const std::string& metric, double value, double threshold,
                           const Run::Controls& controls = {}, const std::string& reported = "") {
    run.finding(empirical, "S2", claim, metric, value, at_least(threshold), elhage, controls, reported);
  };
  finding("trained with positions and a mask, A B C A B -> C", "accuracy, all 15,600 ordered triples", full.right, 0.99,
          {{"no positions, no mask", none.right}, {"no positions", mask.right}});
  finding("also for triples that never occurred", "accuracy, held-out triples", full.unseen_right, 0.99);
  finding("and it is sure", "mean P(C)", full.p, 0.9, {{"no positions", mask.p}});
  finding("the first head attends to the previous token", "previous-token score", full.previous, 0.6,
          {{"to the same token", full.same}}, "article: the second B attends to the first");
  finding("the second to what followed last time", "attention from the last B to C", full.to_c, 0.9,
          {{"from the last B to A", full.to_a}}, "article: attends to A, and so predicts C");
}
}  // namespace

int main(int argc, char** argv) {
  return run_experiment(argc, argv, {"copy", "A B C A B: how do two attention layers know that C is next?", 1500, 300},
                        nullptr, copy);
}
