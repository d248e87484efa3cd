// Question   What does this model compute? Every analysis of nn/circuits/, for any attention-only model in a safetensors
//            file with TransformerLens's names: trained here, written by hand, or exported from PyTorch.
// Findings   The identities, on this model: paths add up to its logits and scores. The rest are tables to read, each
//            beside what random weights of the same shapes give.
// Source     Elhage et al. 2021, Olsson et al. 2022.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "experiments/common/circuit_report.h"
#include "experiments/common/run.h"
#include "experiments/common/skip_trigram_report.h"
#include "experiments/common/tasks.h"
#include "experiments/common/tokenizer.h"
#include "nn/circuits/weights_file.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {

const std::string elhage = "Elhage et al. 2021";

struct Settings {
  std::string model, tokenizer, positions = "learned";
};

// Pieces of text where there is a tokenizer, numbers otherwise.
Names names_of(const Settings& s, const Weights& w) {
  const Names numbers = [](int64_t id) { return std::to_string(id); };
  const auto beside = std::filesystem::path(s.model).parent_path() / "tokenizer.json";
  const std::string file = !s.tokenizer.empty() ? s.tokenizer : std::filesystem::exists(beside) ? beside.string() : "";
  if (file.empty()) return numbers;
  Tokenizer t = Tokenizer::load(file);
  if (s.tokenizer.empty() && t.vocab_size() != w.V()) return numbers;  // of another model in that folder
  require(t.vocab_size() == w.V(), file, "has ", t.vocab_size(), " tokens, the model ", w.V());
  return [t](int64_t id) { return t.piece(int32_t(id)); };
}

// For each head, the source tokens that raise something most, from where they are looked at and what they then raise.
// A tokenizer's single bytes are left out: text hardly has them, so their rows are what they were before training.
void skip_trigram_tables(Run& run, const Weights& whole, const Names& all_names) {
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < whole.V(); ++id)
    if (!all_names(id).starts_with("<0x")) ids.push_back(id);
  const Weights w = of_tokens(whole, ids);
  const Names names = [&](int64_t i) { return all_names(ids[size_t(i)]); };
  const std::vector<double> uniform(size_t(w.V()), 1 / double(w.V()));
  for (int64_t l = 0; l < int64_t(w.layers.size()); ++l)
    for (int64_t h = 0; h < int64_t(w.layers[size_t(l)].size()); ++h)
      run.say(fmt::format("{}  source | looked at from{} | raises\n{}", to_string(HeadId{l, h}),
                          l == 0 ? "" : " (not counting earlier heads)",
                          skip_trigram_table(strongest(w, {l, h}, uniform, 5, 4), names, 4)));
}

// How many heads copy, and how many pairs compose, by more than random weights of the same shapes would.
void against_random(Run& run, const Weights& w, const std::vector<Composed>& all, Rng& rng) {
  int64_t heads = 0, copy = 0;
  for (const auto& layer : w.layers)
    for (const Head& h : layer) {
      const Null null = copying_null(w, h.W_V.dim(1), 50, rng);
      ++heads, copy += null.sigmas(copying_score(token_ov(w, h))) > 4;
    }
  run.say(copy ? fmt::format("{} of {} heads copy by more than 4 standard deviations of random weights", copy, heads)
               : "all copying scores are within what random weights give: no head copies");
  if (all.empty()) return;
  const auto far = std::ranges::count_if(all, [](const Composed& c) { return c.null.sigmas(c.score) > 5; });
  run.say(far ? fmt::format("{} of {} pairs and ways compose by more than 5 standard deviations of random weights\n",
                            far, all.size())
              : "all compositions are within what random weights give: these heads do not read each other\n");
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
    against_random(run, w, all, rng);
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
