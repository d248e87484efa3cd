#include "experiments/common/run.h"

#include <fmt/core.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>

#include "nn/files.h"
#include "nn/model_file.h"
#include "tensor/error.h"
#include "tensor/parallel.h"

namespace clearhead {
namespace {

volatile sig_atomic_t signal_seen = 0;

void on_signal(int number) { signal_seen = number; }

void watch_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = int(SA_RESETHAND);  // the second one ends the program
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void add_common_options(CLI::App& app, Options& o, const Experiment& e) {
  app.add_option("--seed", o.seed, "seed of the first run")->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--seeds", o.seeds, "run this many seeds, one after the other, and summarize")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  if (e.steps > 0)
    app.add_option("--steps", o.steps,
                   fmt::format("training steps of the main model [{}; {}with --quick {}]", e.steps,
                               e.text_steps > 0 ? fmt::format("with --corpus {}; ", e.text_steps) : "", e.quick_steps))
        ->check(CLI::PositiveNumber);
  if (e.text_steps > 0) {
    app.add_option("--corpus", o.text.corpus,
                   "train on text: code, prose (see scripts/fetch_text.sh), or UTF-8 files of yours");
    app.add_option("--tokenizer", o.text.tokenizer, "of the text: byte, word or bpe")
        ->check(CLI::IsMember({"byte", "word", "bpe"}))
        ->capture_default_str();
    app.add_option("--vocab", o.text.vocab, "tokens of the word or bpe tokenizer")
        ->check(CLI::Range(2, 65536))
        ->capture_default_str();
  }
  app.add_option("--threads", o.threads, "threads; the results have the same bits for any number")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--out", o.out, fmt::format("output folder: DIR/{}/seed-N/", e.name))->capture_default_str();
  app.add_flag("--resume", o.resume, "go on from the checkpoints in the output folder");
  app.add_flag("--quick", o.quick, "a smoke run of seconds; its findings may fail");
  app.add_flag("--quiet", o.quiet, "print the findings only");
  app.set_config("--config", "", "read options from this file (lines of name = value)");
  app.allow_config_extras(false);
}

}  // namespace

int interrupted() { return signal_seen; }

Run::Run(const Experiment& e, const Options& o, uint64_t seed)
    : experiment_(e.name), options_(o), seed_(seed), folder_(fmt::format("{}/{}/seed-{}", o.out, e.name, seed)) {}

void Run::finding(Kind kind, const std::string& id, const std::string& claim, const std::string& metric, double value,
                  const Bound& bound, const std::string& source, const Controls& controls,
                  const std::string& reported) {
  findings.push_back({kind, id, claim, metric, value, bound, controls, reported, source});
}

void Run::say(const std::string& text) const {
  if (!options_.quiet) fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Run::begin() {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  require(!error, folder_, "cannot create the output folder: ", error.message());
  if (options_.resume && std::filesystem::exists(path("config.json")))
    require_same_settings(path("config.json"), nlohmann::json::parse(read_file(path("config.json")), nullptr, false),
                          config);
  if (!options_.resume)  // nothing may stay that a later --resume would take for a checkpoint of this run
    for (const auto& file : std::filesystem::directory_iterator(folder_))
      if (file.path().extension() == ".checkpoint") std::filesystem::remove(file.path());
  write_file(path("config.json"), config.dump(2) + "\n");
}

void Run::finish(double seconds) {
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& f : findings) list.push_back(to_json(f));
  const nlohmann::json results{{"experiment", experiment_}, {"seed", seed_},           {"config", config},
                               {"tokens", tokens},          {"wall_seconds", seconds}, {"findings", list}};
  write_file(path("results.json"), results.dump(2) + "\n");
}

int run_experiment(int argc, char** argv, const Experiment& e, const AddOptions& add_options,
                   const std::function<void(Run&)>& body) {
  Options options;
  options.threads = num_threads();
  options.text.vocab = e.vocab;
  CLI::App app(e.question, e.name);
  add_common_options(app, options, e);
  if (add_options) add_options(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    fmt::print(stderr, "{}: {} (see {} --help)\n", e.name, error.what(), e.name);
    return 2;
  }
  if (options.out.empty()) {
    fmt::print(stderr, "{}: --out needs the name of a folder (see {} --help)\n", e.name, e.name);
    return 2;
  }
  if (options.steps == 0)
    options.steps = options.quick ? e.quick_steps : options.text.corpus.empty() ? e.steps : e.text_steps;
  watch_signals();
  try {
    set_num_threads(options.threads);
    std::vector<std::vector<Finding>> runs;
    for (int i = 0; i < options.seeds; ++i) {
      const auto start = std::chrono::steady_clock::now();
      Run run(e, options, options.seed + uint64_t(i));
      body(run);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      run.finish(seconds.count());
      fmt::print("\n{}, seed {} ({:.1f} s; {})\n{}", e.name, run.seed(), seconds.count(), run.path("results.json"),
                 findings_table(run.findings));
      std::fflush(stdout);
      runs.push_back(run.findings);
    }
    if (options.seeds > 1) fmt::print("\n{}, {} seeds\n{}", e.name, options.seeds, seeds_table(runs));
    for (const auto& findings : runs)
      if (!std::ranges::all_of(findings, [](const Finding& f) { return f.holds(); })) return 3;
    return 0;
  } catch (const Interrupted& stop) {
    fmt::print(stderr, "{}: interrupted; nothing is lost, --resume goes on from here\n", e.name);
    return 128 + stop.signal;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", e.name, error.what());
    return 1;
  }
}

}  // namespace clearhead
