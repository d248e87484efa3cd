// Question   What does this model compute? Every analysis of nn/circuits/, for any attention-only model in a safetensors
//            file with TransformerLens's names: trained here, written by hand, or exported from PyTorch.
// Findings   The identities, on this model: paths add up to its logits and scores. The rest are tables to read, each
//            beside what random weights of the same shapes give.
// Source     Elhage et al. 2021, Olsson et al. 2022.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <numeric>

#include "experiments/common/circuit_report.h"
#include "experiments/common/run.h"
#include "experiments/common/tasks.h"
#include "experiments/common/tokenizer.h"
#include "nn/circuits/tables.h"
#include "nn/circuits/weights_file.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {

const std::string elhage = "Elhage et al. 2021";

struct Settings {
  std::string model, tokenizer, positions = "learned";
};

struct Names {  // of tokens: pieces where there is a tokenizer, numbers otherwise
  std::optional<Tokenizer> tokenizer;
  std::string operator()(int64_t id) const { return tokenizer ? tokenizer->piece(int32_t(id)) : std::to_string(id); }
};

Names names_of(const Settings& s, const Weights& w) {
  const auto beside = std::filesystem::path(s.model).parent_path() / "tokenizer.json";
  const std::string file = !s.tokenizer.empty() ? s.tokenizer : std::filesystem::exists(beside) ? beside.string() : "";
  if (file.empty()) return {};
  Tokenizer t = Tokenizer::load(file);
  if (s.tokenizer.empty() && t.vocab_size() != w.V()) return {};  // of another model in that folder
  require(t.vocab_size() == w.V(), file, "has ", t.vocab_size(), " tokens, the model ", w.V());
  return {t};
}

std::string listed(const std::vector<Entry>& entries, const Names& names) {
  std::string text;
  for (const Entry& e : entries) text += fmt::format("{} {:+.2f}  ", names(e.token), e.value);
  return text;
}

// For each head, the source tokens that raise something most, from where they are looked at and what they then raise.
void skip_trigram_tables(Run& run, const Weights& w, const Names& names) {
  const std::vector<double> uniform(size_t(w.V()), 1 / double(w.V()));
  std::vector<int64_t> all(static_cast<size_t>(w.V()));
  std::iota(all.begin(), all.end(), 0);
  for (size_t l = 0; l < w.layers.size(); ++l)
    for (size_t h = 0; h < w.layers[l].size(); ++h) {
      const auto raised = top_of_rows(centred_over_rows(token_ov(w, w.layers[l][h]), uniform), all, 1);
      std::vector<int64_t> sources = all;
      const size_t few = std::min<size_t>(5, sources.size());
      std::partial_sort(sources.begin(), sources.begin() + int64_t(few), sources.end(),
                        [&](int64_t a, int64_t b) { return raised[size_t(a)][0].value > raised[size_t(b)][0].value; });
      sources.resize(few);
      std::string text =
          fmt::format("{}  source | looked at from{} | raises\n", to_string(HeadId{int64_t(l), int64_t(h)}),
                      l == 0 ? "" : " (not counting earlier heads)");
      for (const SkipTrigrams& s : skip_trigrams(w, w.layers[l][h], sources, 4, uniform))
        text +=
            fmt::format("    {:<12} | {}| {}\n", names(s.source), listed(s.destinations, names), listed(s.outs, names));
      run.say(text);
    }
}

void identities(Run& run, const Trace& t) {
  const std::vector<Tensor> streams = streams_by_order(t.w, t.patterns, t.tokens);
  Tensor sum(streams[0].shape());
  for (const Tensor& s : streams) add_into(sum, s);
  run.finding(identity, "T1", "paths add up to the logits",
              fmt::format("sum of {} orders, against the logits", streams.size()),
              relative_difference(matmul(sum, t.w.W_U), t.logits), at_most(1e-3), elhage,
              {{"direct path alone", relative_difference(matmul(streams[0], t.w.W_U), t.logits)}});
  double worst = 0;
  for (int64_t l = 0; l < int64_t(t.w.layers.size()); ++l)
    for (int64_t h = 0; h < int64_t(t.w.layers[size_t(l)].size()); ++h) {
      const ScoreParts s = score_parts(t.w, t.patterns, t.tokens, {l, h});
      worst = std::max(worst, relative_difference(s.total(), t.scores[size_t(l)].select(1, h).contiguous()));
    }
  if (!t.w.layers.empty())
    run.finding(identity, "T2", "and to the scores of every head",
                "direct + Q + K + QK composition, against the scores", worst, at_most(1e-3), elhage);
}

void circuits(Run& run, const Settings& s) {
  run.config = {{"model", s.model}, {"tokenizer", s.tokenizer}, {"positions", s.positions}};
  run.begin();
  const Weights w = load_weights(s.model, positions_from(s.positions));
  const Names names = names_of(s, w);
  const size_t heads = w.layers.empty() ? 0 : w.layers[0].size();
  run.say(fmt::format("{}: {} layers of {} heads, d_model {}, {} tokens", s.model, w.layers.size(), heads, w.d_model(),
                      w.V()));
  Rng rng(run.seed(), Stream::analysis);
  const int64_t longest = w.W_pos ? w.W_pos->dim(0) : 75, period = std::clamp<int64_t>(longest / 3, 1, 25);
  const Trace t = trace(model_of(w), repeated_random(8, period, std::min<int64_t>(3, longest / period), w.V(), rng));
  run.say(fmt::format("direct path: copying {:+.3f} (a bigram table; below 0: tokens make themselves less likely)\n",
                      copying_score(direct_path(w))));
  if (!w.layers.empty()) {
    run.say(fmt::format("on random tokens, a period of {} repeated", period));
    run.say(head_table(t, rng));
    const std::vector<Composed> all = compositions(w, rng);
    if (!all.empty()) run.say(composition_table(all, 12));
    const auto far = std::ranges::count_if(all, [](const Composed& c) { return c.null.sigmas(c.score) > 5; });
    if (!all.empty())
      run.say(far ? fmt::format("{} of {} pairs and ways compose by more than 5 standard deviations of random weights",
                                far, all.size())
                  : "all compositions are within what random weights give: these heads do not read each other");
    skip_trigram_tables(run, w, names);
  }
  identities(run, t);
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  const auto options = [&](CLI::App& app) {
    app.add_option("model", s.model, "a safetensors file")->required();
    app.add_option("--tokenizer", s.tokenizer, "tokenizer.json to name tokens (default: the one beside the model)");
    app.add_option("--positions", s.positions, "where W_pos is added, if the file does not say")
        ->check(CLI::IsMember({"learned", "sinusoidal", "shortformer"}))
        ->capture_default_str();
  };
  return run_experiment(argc, argv, {.name = "circuits", .question = "What does this model compute?"}, options,
                        [&](Run& run) { circuits(run, s); });
}
