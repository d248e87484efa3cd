// Question   How close does in-context learning come to the best there is, and by what stages?
// Model      2 layers of 4 heads, d_model 64, attention only. Control: one layer of eight heads.
// Task       Markov chains over three states, a new one for every sequence (experiments/common/in_context_markov.h). What
//            can be known is known exactly: the Bayes predictor counts bigrams. On the way lie predictors that count less.
// Controls   Chains whose states are all equally frequent: then counting states does not help, and its plateau should go.
// Source     Edelman et al. 2024, "The Evolution of Statistical Induction Heads".
#include <fmt/core.h>

#include "experiments/common/in_context_markov.h"
#include "experiments/common/measures.h"
#include "experiments/common/settings.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {
const std::string edelman = "Edelman et al. 2024";

struct Course {
  Curve curve;
  std::array<double, 3> nearest{};          // for how many steps each strategy was the nearest
  std::array<double, 3> first{-1, -1, -1};  // and from when
  double counting_states = 0;               // loss of the unigram strategy above Bayes, nats

  double excess() const { return curve.back().at("excess"); }  // final loss above Bayes, nats
};

Course fit(Run& run, const std::string& label, int64_t layers, const InContextMarkov& task) {
  Config c;
  c.d_vocab = task.k, c.n_ctx = task.T, c.d_model = 64, c.d_head = 16;
  Transformer model(layers == 1 ? one_layer_of(c) : c, run.seed());
  Rng rng(run.seed(), Stream::eval);
  const Tokens inputs = next_token_batch(task.sample(128, rng)).inputs;
  std::array<Tensor, 3> strategies;
  for (Strategy s : {uniform, unigram, bigram}) strategies[s] = predictions_of(s, inputs, task.k);
  Course course;
  course.counting_states = kl(strategies[bigram], strategies[unigram]);
  course.curve = train(
      run, label, model, [&](Rng& r) { return next_token_batch(task.sample(64, r)); },
      {.steps = run.options().steps, .lr = 6e-3, .cosine = true, .log_every = 10},
      [&](const Transformer& m) -> nlohmann::json {
        const Tensor p = softmax(m.logits(inputs).value());
        nlohmann::json j{{"excess", kl(strategies[bigram], p)}};
        for (Strategy s : {uniform, unigram, bigram}) j[strategy_names[s]] = kl(p, strategies[s]);
        return j;
      });
  std::string text =
      fmt::format("{}: KL(model || strategy), nats\n   step  uniform  unigram   bigram   loss above Bayes", label);
  for (size_t i = 0; i < course.curve.size(); ++i) {
    const auto& e = course.curve[i];
    const auto of = [&](int s) { return double(e.at(strategy_names[size_t(s)])); };
    const int now = of(0) <= std::min(of(1), of(2)) ? 0 : of(1) <= of(2) ? 1 : 2;
    if (course.first[size_t(now)] < 0) course.first[size_t(now)] = e.at("step");
    if (i > 0) course.nearest[size_t(now)] += double(e.at("step")) - double(course.curve[i - 1].at("step"));
    if (i % (course.curve.size() / 12 + 1) == 0 || i + 1 == course.curve.size())
      text += fmt::format("\n  {:>5}  {:7.3f}  {:7.3f}  {:7.3f}   {:.4f}", int64_t(e.at("step")), of(0), of(1), of(2),
                          double(e.at("excess")));
  }
  run.say(text);
  if (label == "two_layers") save_model(run.path("model.safetensors"), model);
  return course;
}

void markov(Run& run) {
  run.config = {{"steps", run.options().steps}};
  run.begin();
  const Course two = fit(run, "two_layers", 2, {}), one = fit(run, "one_layer", 1, {}),
               equal = fit(run, "equally_frequent", 2, {.doubly_stochastic = true});
  run.finding(planted, "Edelman", "in the end the model is as good as Bayes", "loss above the Bayes predictor, nats",
              two.excess(), at_most(0.02), edelman, {{"one layer", one.excess()}}, "converges to it");
  run.finding(empirical, "Edelman", "it is nearest to uniform, then to counting states, then to counting bigrams",
              "1 if each is the nearest at some time, first in this order",
              two.first[0] >= 0 && two.first[0] < two.first[1] && two.first[1] < two.first[2], at_least(1), edelman,
              {{"steps near uniform", two.nearest[0]}, {"unigram", two.nearest[1]}, {"bigram", two.nearest[2]}},
              "in this order");
  const auto plateau = [](const Course& c) { return c.nearest[1] / (c.nearest[0] + c.nearest[1]); };
  run.finding(empirical, "Edelman", "where states are equally frequent, there is no plateau of counting them",
              "steps nearest to unigram / steps until bigrams", plateau(equal), at_most(0.1), edelman,
              {{"otherwise", plateau(two)}}, "the plateau vanishes");
  run.finding(empirical, "Edelman", "one layer stays with the states",
              "loss of one layer above the Bayes predictor, nats", one.excess(), at_least(0.1), edelman,
              {{"steps near bigram", one.nearest[2]}, {"counting states", one.counting_states}},
              "a single layer does not learn it");
}
}  // namespace

int main(int argc, char** argv) {
  return run_experiment(argc, argv, {"markov", "How close does in-context learning come to Bayes?", 1500, 200}, nullptr,
                        markov);
}
