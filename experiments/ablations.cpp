// Question   What breaks when heads are knocked out, one by one, in pairs, and by what they do? And what speeds up when a
//            head is given from the start?
// Model      2 layers of 8 heads, d_model 64, attention only, on repeated segments (experiments/common/settings.h). More
//            heads than it needs, so that there are others to compare with.
// Ablations  Zero, mean, and with all patterns frozen (experiments/common/ablation.h). Always the whole class: heads stand
//            in for each other.
// Controls   As many heads that do something else; one layer; a head of layer 0 that is given another pattern.
// Sources    Olsson et al. 2022; Singh et al. 2024, "What needs to go right for an induction head?" (given patterns).
#include <fmt/core.h>

#include <cmath>

#include "experiments/common/ablation.h"
#include "experiments/common/curves.h"
#include "experiments/common/settings.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {
const std::string olsson = "Olsson et al. 2022", replication = "a replication", singh = "Singh et al. 2024";

struct Eval {
  Batch repeated, other;  // other: [a] [b] .. [a] [c], of which only c counts
};

Curve fit(Run& run, const Setting& s, const std::string& label, Transformer& model, const Eval& eval,
          const Probe& given = {}) {
  Trainee t = trainee(model);
  t.loss = [model, given](const Batch& b, Rng&) {
    Probe probe = given;
    return model.loss(b.inputs, b.targets, probe);
  };
  TrainOptions options = s.options;
  options.log_every = 10;
  return train(run, label, t, s.batches, options, [&]() -> nlohmann::json {
    return {{"accuracy", induction_accuracy(predict(model, eval.repeated, given), eval.repeated)},
            {"other", mean_loss(predict(model, eval.other, given), eval.other)}};
  });
}

// The first head of layer 0 attends `back` tokens back (at the beginning, to the first), whatever its weights say.
Probe given_pattern(const Config& c, int64_t back) {
  Probe probe;
  probe.replace("blocks.0.attn.pattern", [c, back](const std::string&, const Var& pattern) {
    const int64_t T = pattern.value().dim(2);
    Tensor keep({c.n_heads, T, T}, 1), add({c.n_heads, T, T}, 0);
    std::fill_n(keep.mut().begin(), T * T, Real(0));
    for (int64_t i = 0; i < T; ++i) add.mut()[size_t(i * T + std::max<int64_t>(0, i - back))] = 1;
    return pattern * expand(Var(keep), pattern.shape()) + expand(Var(add), pattern.shape());
  });
  return probe;
}

struct Effect {
  double accuracy, icl;
};

struct Lab {
  const Transformer& model;
  const Eval& eval;
  Effect without(const std::vector<HeadId>& heads, Ablation how = Ablation::zero) const {
    const Predictions p = predict_without(model, eval.repeated, heads, how);
    return {induction_accuracy(p, eval.repeated), icl_score(p)};
  }
};

void classes(Run& run, const Lab& lab, const Classes& c, double floor) {
  const Effect base = lab.without({});
  const auto some_others = [&](size_t n) {
    return std::vector<HeadId>(c.others.begin(), c.others.begin() + long(std::min(n, c.others.size())));
  };
  const auto beside_induction = some_others(c.induction.size()), beside_previous = some_others(c.previous.size());
  std::string table = fmt::format(
      "knocked out                                          accuracy: zero   mean  frozen   ICL score: zero   mean"
      "  frozen   (nothing: {:.3f}, {:.3f}; order-blind {:.3f})",
      base.accuracy, base.icl, floor);
  const auto row = [&](const std::string& name, const std::vector<HeadId>& heads) {
    const std::array e{lab.without(heads), lab.without(heads, Ablation::mean), lab.without(heads, Ablation::frozen)};
    table += fmt::format("\n{:<12} {:<39} {:15.3f} {:6.3f} {:7.3f} {:17.3f} {:6.3f} {:7.3f}", name, listed(heads),
                         e[0].accuracy, e[1].accuracy, e[2].accuracy, e[0].icl, e[1].icl, e[2].icl);
    return e;
  };
  const auto induction = row("induction", c.induction), other = row("others", beside_induction),
             previous = row("previous", c.previous), other_previous = row("others", beside_previous);
  run.say(table);
  run.finding(empirical, "I9", "without the induction heads nothing is left of induction",
              "accuracy above the order-blind guess, no induction heads", induction[1].accuracy - floor, at_most(0.05),
              olsson, {{"zeros instead of means", induction[0].accuracy - floor}, {"all heads", base.accuracy - floor}},
              ".109 of 1, unigram .142");
  run.finding(empirical, "I9", "without the previous-token heads, neither", "the same, no previous-token heads",
              previous[1].accuracy - floor, at_most(0.05), olsson,
              {{"zeros instead of means", previous[0].accuracy - floor}}, ".162 of 1");
  run.finding(empirical, "I9", "other heads are hardly missed: as many, or all there are",
              "accuracy lost, the worse of both controls",
              base.accuracy - std::min(other[1].accuracy, other_previous[1].accuracy), at_most(0.1), olsson,
              {{"zeros instead of means", base.accuracy - std::min(other[0].accuracy, other_previous[0].accuracy)},
               {"heads", double(beside_induction.size())},
               {"induction heads", double(c.induction.size())},
               {"previous-token heads", double(c.previous.size())}},
              ".020 to .028");
  run.finding(empirical, "I9", "the previous-token heads act by where later heads look: their output is not missed",
              "accuracy lost, patterns frozen", base.accuracy - previous[2].accuracy, at_most(0.1), olsson,
              {{"patterns free", base.accuracy - previous[0].accuracy},
               {"induction heads, frozen", base.accuracy - induction[2].accuracy}});
  run.finding(empirical, "I9", "learning in context is the induction heads' doing",
              "ICL score without their output (frozen) / with", induction[2].icl / base.icl, at_most(0.25), olsson,
              {{"without as many others", other[2].icl / base.icl}}, "almost all");
}

void single_heads_and_pairs(Run& run, const Lab& lab, const Classes& c) {
  const double base = lab.without({}).accuracy;
  const int64_t H = lab.model.config.n_heads, n = lab.model.config.n_layers * H;
  const auto id = [&](int64_t i) { return HeadId{i / H, i % H}; };
  std::string table = "accuracy lost, times 100, without a head (diagonal) and without a pair of heads\n      ";
  for (int64_t i = 0; i < n; ++i) table += fmt::format("{:>5}", to_string(id(i)));
  double worst = 0, worst_induction = 0;
  for (int64_t i = 0; i < n; ++i) {
    table += fmt::format("\n{:<6}{}", to_string(id(i)), std::string(size_t(5 * i), ' '));
    for (int64_t j = i; j < n; ++j) {
      const double lost = base - lab.without({id(i), id(j)}).accuracy;
      table += fmt::format("{:5.0f}", 100 * lost);
      if (i != j) continue;
      worst = std::max(worst, lost);
      if (std::ranges::count(c.induction, id(i))) worst_induction = std::max(worst_induction, lost);
    }
  }
  run.say(table);
  run.finding(empirical, "I9", "no induction head is needed by itself: the others stand in for it",
              "largest accuracy lost without one of them / without all",
              worst_induction / (base - lab.without(c.induction).accuracy), at_most(0.5), replication,
              {{"without any single head, accuracy lost", worst}}, ".086, previous .52");
}

void causes(Run& run, const Setting& s, const Eval& eval, const Curve& curve) {
  const double ln_V = std::log(double(s.config.d_vocab - 1)), t50 = rise(curve, "accuracy").t50;
  double before = 0;
  for (const auto& e : curve)
    if (e.at("step") <= t50 / 2) before = e.at("other");
  const double after = curve.back().at("other");
  run.finding(empirical, "I11", "it now expects b after a: where c follows instead, it is worse than before",
              "loss on c in [a][b] .. [a][c], in the end above ln V", after - ln_V, at_least(0), olsson,
              {{"before the change, above ln V", before - ln_V}}, "worse after the change");
  run.finding(empirical, "I11", "the loss rises across the change", "nats from half of t50 to the end", after - before,
              at_least(0.5), olsson);
  const auto half = [&](const std::string& label, int64_t back) {
    Transformer model(s.config, run.seed());
    return rise(fit(run, s, label, model, eval, given_pattern(s.config, back)), "accuracy").t50;
  };
  const double given = half("given_previous", 1), present = half("given_present", 0);
  run.finding(empirical, "Singh", "a previous-token pattern from the start brings induction forward",
              "steps to half the accuracy, given / not", given / t50, at_most(0.8), singh,
              {{"steps, not given", t50}, {"given", given}, {"another pattern given / not", present / t50}}, "sooner");
}

void ablations(Run& run) {
  Setting s = repeated_segments(run);
  s.config.n_heads = 8;
  Rng rng(run.seed(), Stream::analysis);
  const Eval eval{next_token_batch(s.repeated), other_successors(256, s.config.d_vocab - 1, s.bos, rng)};
  Transformer model(s.config, run.seed());
  Transformer one(one_layer_of(s.config), run.seed());
  const Curve curve = fit(run, s, "two_layers", model, eval);
  fit(run, s, "one_layer", one, eval);
  save_model(run.path("model.safetensors"), model);
  const Tokens random = begun_with(repeated_random(16, 21, 3, s.config.d_vocab - 1, rng), s.bos);
  run.say(to_string(head_scores(model, random)));
  const Classes c = classes_of(trace(model, random), 0.15);
  const Lab lab{model, eval};
  classes(run, lab, c, order_blind_accuracy(eval.repeated));
  single_heads_and_pairs(run, lab, c);
  const Swapped swapped = swap_sources(next_token_batch(begun_with(RepeatedSegment{}.sample(512, rng), s.bos)).inputs,
                                       s.config.d_vocab - 1, rng);
  run.finding(empirical, "I13", "swap what followed last time, and the prediction follows", "follow rate, two layers",
              follow_rate(model, swapped), at_least(0.9), replication,
              {{"one layer", follow_rate(one, swapped)},
               {"without induction heads", follow_rate(model, swapped, knock_out(s.config, c.induction))},
               {"without previous-token heads", follow_rate(model, swapped, knock_out(s.config, c.previous))}},
              ".91");
  run.finding(empirical, "I13", "with one layer it does not", "follow rate, one layer", follow_rate(one, swapped),
              at_most(0.2), replication);
  causes(run, s, eval, curve);
}
}  // namespace

int main(int argc, char** argv) {
  return run_experiment(argc, argv, {"ablations", "What breaks without which heads?", 1500, 300}, nullptr, ablations);
}
