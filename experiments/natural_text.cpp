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
#include <limits>
#include <numeric>
#include <span>

#include "experiments/common/ablation.h"
#include "experiments/common/curves.h"
#include "experiments/common/repeated_text.h"
#include "experiments/common/settings.h"

using namespace clearhead;

namespace {
const std::string olsson = "Olsson et al. 2022";

struct Trained {
  Transformer model;
  Curve curve;
  double end(const std::string& key) const { return curve.back().at(key); }
  double gain(const std::string& text) const { return end(text + "_first") - end(text + "_later"); }
};

Trained fit(Run& run, const std::string& label, int64_t layers, double code, const TextData& d, int64_t steps) {
  Config c;
  c.d_vocab = d.tokenizer().vocab_size(), c.n_ctx = d.T, c.d_model = 128, c.d_head = 32;
  Trained t{Transformer(layers == 1 ? one_layer_of(c) : c, run.seed()), {}};
  const auto batches = [&](Rng& rng) {
    Tokens rows(4, d.T + 1);  // few, so that the head forms after few tokens; by eights it takes 1.7 times as many
    for (int64_t b = 0; b < rows.B; ++b) {
      const Corpus& from = (rng.uniform() < code ? d.code : d.prose).corpus;
      std::ranges::copy(random_windows(from.train, 1, rows.T, rng).ids, rows.ids.begin() + b * rows.T);
    }
    return next_token_batch(begun_with(rows, d.tokenizer().bos()));
  };
  t.curve = train(run, label, t.model, batches, {.steps = steps, .lr = 4e-3, .warmup = 200, .log_every = 300},
                  [&](const Transformer& m) { return text_snapshot(m, d); });
  return t;
}

// Million tokens to a prefix matching of .3; infinity: never.
double emerged(const Curve& curve, const std::string& text) {
  for (const auto& e : curve)
    if (e.at(text + "_prefix") >= 0.3) return double(e.at("tokens")) / 1e6;
  return std::numeric_limits<double>::infinity();
}

std::string course(const Trained& t, const std::string& text) {
  std::string s = fmt::format(
      "{}, held-out {}\n  million tokens   loss  late - early  previous   prefix: text  random"
      "   repeated passage: first  later",
      std::string(t.curve[0].at("model")), text);
  for (size_t i = 0; i < t.curve.size(); ++i) {
    const auto of = [&](const std::string& key) { return double(t.curve[i].at(key)); };
    if (i % 2 == 0 || i + 1 == t.curve.size())
      s += fmt::format("\n{:>16.2f}  {:.3f}  {:12.3f}  {:8.3f}  {:13.3f}  {:6.3f}  {:24.3f}  {:.3f}",
                       of("tokens") / 1e6, of(text + "_loss"), of(text + "_icl"), of("previous"), of(text + "_prefix"),
                       of("random_prefix"), of(text + "_first"), of(text + "_later"));
  }
  return s;
}

// For the reader's eye: what the model guesses of a held-out passage that comes for the last time, and how it goes on after
// the passage and its first tokens, with and without some heads. Of the passages where these heads bring most and, in the
// middle, as much as elsewhere.
void samples(Run& run, const Trained& t, const TextData& d, const std::vector<HeadId>& heads) {
  const Batch& x = d.code.passages;
  constexpr int64_t length = TextData::passage, start = 12, more = 36;
  const int64_t T = x.inputs.T, last = T - length;  // from here on, the last copy is what there is to predict
  const Predictions with = predict(t.model, x), without = predict_without(t.model, x, heads);
  const auto text = [&](std::span<const int32_t> ids) { return d.tokenizer().decode(ids); };
  const auto guessed = [&](const Predictions& p, int64_t row) {
    std::pair<int64_t, std::string> g;
    for (int64_t i = row * T + last; i < (row + 1) * T; ++i) {
      const bool right = p.best[size_t(i)] == x.targets.ids[size_t(i)];
      g.first += right, g.second += right ? text(std::span(&p.best[size_t(i)], 1)) : "~";
    }
    return g;
  };
  std::vector<int64_t> order(size_t(x.inputs.B));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int64_t b) { return guessed(with, b).first - guessed(without, b).first; });
  for (const int64_t row : {order.back(), order[order.size() / 2]}) {
    const auto row_of = [&](const Tokens& of) { return std::span(of.ids).subspan(size_t(row * T), size_t(T)); };
    run.say("\na held-out passage\n" + text(row_of(x.targets).last(size_t(length))));
    for (const bool all : {true, false}) {
      const auto [right, seen] = guessed(all ? with : without, row);
      const std::span prompt = row_of(x.inputs).first(size_t(last + 1 + start));
      const Probe probe = all ? Probe() : knock_out(t.model.config, heads);
      run.say(fmt::format("{}: {} of {} tokens guessed, the fourth time\n{}\n... and it goes on after \"{}\"\n{}",
                          all ? "the model" : "without its induction heads", right, length, seen,
                          text(prompt.last(size_t(start))),
                          text(continued(t.model, {prompt.begin(), prompt.end()}, more, probe))));
    }
  }
}

void code_and_prose(Run& run, const TextData& d) {
  const int64_t steps = run.options().steps;
  const Trained code = fit(run, "code", 2, 1, d, steps);
  save_model(run.path("model.safetensors"), code.model);
  const Trained one = fit(run, "code_one_layer", 1, 1, d, steps), prose = fit(run, "prose", 2, 0, d, steps);
  run.say(course(code, "code"));
  run.say(course(one, "code"));
  run.say(course(prose, "prose"));
  Classes c = classes_of(trace(code.model, d.code.passages.inputs));
  samples(run, code, d, c.induction);
  run.say(fmt::format("\ninduction heads: {}; previous-token heads: {}", listed(c.induction), listed(c.previous)));
  const double paid[2] = {pay_off(d, 1), pay_off(d, 0)};
  c.others.resize(std::min(c.others.size(), c.induction.size()));
  const auto gain = [&](const std::vector<HeadId>& heads) {
    return copies_of(predict_without(code.model, d.code.passages, heads)).gain();
  };
  run.finding(empirical, "I15", "an induction head forms out of code and technical text",
              "prefix matching, held-out passages repeated, best head", code.end("code_prefix"), at_least(0.3), olsson,
              {{"untrained", code.curve[0].at("code_prefix")},
               {"one layer", one.end("code_prefix")},
               {"M tokens to .3", emerged(code.curve, "code")}},
              "after 2.5e9 tokens");
  run.finding(empirical, "I15", "it works on random tokens, too", "prefix matching, random tokens repeated",
              code.end("random_prefix"), at_least(0.15), olsson, {{"one layer", one.end("random_prefix")}});
  run.finding(empirical, "I15", "a passage that was seen before costs less", "nats, first copy minus later copies",
              code.gain("code"), at_least(0.8), olsson,
              {{"first", code.end("code_first")},
               {"later", code.end("code_later")},
               {"prose model, prose", prose.gain("prose")}});
  run.finding(empirical, "I15", "which one layer hardly notices", "nats, first copy minus later copies, one layer",
              one.gain("code"), at_most(0.1), olsson, {{"two layers", code.gain("code")}});
  run.finding(empirical, "I15", "one layer learns what occurred, not in what order",
              "nats, last copy after shuffled copies minus after copies, one layer", gain_by_order(one.model, d.code),
              at_most(0.1), olsson, {{"two layers", gain_by_order(code.model, d.code)}});
  run.finding(empirical, "I9", "it is their doing: without the induction heads most of that is gone",
              "gain without them / gain", gain(c.induction) / gain({}), at_most(0.5), olsson,
              {{fmt::format("without {} others", c.others.size()), gain(c.others) / gain({})}});
  run.finding(empirical, "I1", "context helps two layers more than one",
              "held-out loss late minus early, two / one layer", code.end("code_icl") / one.end("code_icl"),
              at_least(1.5), olsson, {{"two layers", code.end("code_icl")}, {"one layer", one.end("code_icl")}});
  run.finding(empirical, "I15", "out of prose it does not form, with as much training",
              "prefix matching, held-out prose repeated, best head", prose.end("prose_prefix"), at_most(0.1), olsson,
              {{"code", code.end("code_prefix")}});
  run.finding(empirical, "I15", "copying pays more in code",
              "share of positions where copying is right and bigrams wrong, code / prose", paid[0] / paid[1],
              at_least(1.5), olsson, {{"code", paid[0]}, {"prose", paid[1]}});
}

void mixtures(Run& run, const TextData& d) {
  std::vector<double> shares{0, .05, .1, .25, .5, 1}, when, ends;
  const int64_t steps = run.options().steps * 4 / 3;
  double no_code = 0;
  std::string table =
      "share of code   copying pays   M tokens to .3   prefix: code  prose  random   nats gained: code  prose";
  for (const double share : shares) {
    const Trained t = fit(run, fmt::format("code_{:.0f}", 100 * share), 2, share, d, steps);
    const double code = emerged(t.curve, "code"), prose = emerged(t.curve, "prose"), first = std::min(code, prose);
    if (share == 0) no_code = t.end("prose_prefix");
    when.push_back(first), ends.push_back(t.end("code_prefix"));
    table +=
        fmt::format("\n{:13.2f}  {:13.4f}   {:>14}  {:13.3f}  {:5.3f}  {:6.3f}  {:18.2f}  {:5.2f}", share,
                    pay_off(d, share), std::isinf(first) ? "never" : fmt::format("{:.1f}", first), t.end("code_prefix"),
                    t.end("prose_prefix"), t.end("random_prefix"), t.gain("code"), t.gain("prose"));
  }
  run.say(table);
  run.finding(
      empirical, "I15", "the more code, the sooner", "Spearman, share of code and tokens to prefix matching .3",
      rank_correlation(shares, when), at_most(-0.8), olsson,
      {{"M tokens, all code", when.back()}, {"share and prefix matching in the end", rank_correlation(shares, ends)}});
  run.finding(empirical, "I15", "and without any, not at all", "prefix matching, held-out prose repeated, no code",
              no_code, at_most(0.1), olsson, {{"all code, on code", ends.back()}});
}
}  // namespace

int main(int argc, char** argv) {
  bool mixed = false;
  const Experiment experiment{"natural_text", "Do induction heads form out of plain text?", 9000, 500};
  return run_experiment(
      argc, argv, experiment,
      [&](CLI::App& app) {
        app.add_flag("--mixtures", mixed, "instead: six mixtures, of 0 to 100 % code, a third longer each");
      },
      [&](Run& run) {
        run.config = {{"steps", run.options().steps}, {"mixtures", mixed}};
        run.begin();
        const TextData d(run, 1024);
        mixed ? mixtures(run, d) : code_and_prose(run, d);
      });
}
