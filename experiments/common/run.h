// Run: where one seed of an experiment writes, and how it is told to stop. The common face of all programs (DESIGN:
// options, exit codes, files) is run_experiment.
//
//     int main(int argc, char** argv) {
//       Settings s;
//       return run_experiment(argc, argv, {.name = "bigrams", .question = "...", .steps = 1000, .quick_steps = 100},
//                             [&](CLI::App& app) { app.add_option("--corpus", s.corpus, "..."); },
//                             [&](Run& run) { ... run.finding(empirical, "Z1", "...", "...", gap, at_most(0.1), "...");
//                             });
//     }
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/common/findings.h"

namespace CLI {
class App;
}

namespace clearhead {

// The text to train on, for programs that can: see text.h.
struct TextOptions {
  std::vector<std::string> corpus;  // "code", "prose" or files; empty: a synthetic language
  std::string tokenizer = "bpe";
  int vocab = 1024;
};

// The options that every program has, and those on text.
struct Options {
  uint64_t seed = 0;
  int seeds = 1;
  int64_t steps = 0;
  int threads = 1;
  std::string out = "runs";
  bool resume = false, quick = false, quiet = false;
  TextOptions text;
};

struct Experiment {
  std::string name, question;
  int64_t steps = 0, quick_steps = 0;  // defaults of --steps: normally, and with --quick; 0: the program trains nothing
  int64_t text_steps = 0;              // with --corpus; 0: there is no --corpus
  int vocab = 1024;                    // default of --vocab
};

class Run {
 public:
  Run(const Experiment& experiment, const Options& options, uint64_t seed);

  const Options& options() const { return options_; }
  uint64_t seed() const { return seed_; }
  std::string path(const std::string& file) const { return folder_ + "/" + file; }
  // What determines the result, besides the code: written to config.json, and demanded to be the same by --resume.
  nlohmann::json config;
  using Controls = std::map<std::string, double>;
  void finding(Kind kind, const std::string& id, const std::string& claim, const std::string& metric, double value,
               const Bound& bound, const std::string& source, const Controls& controls = {},
               const std::string& reported = "");
  void say(const std::string& text) const;  // a line or table for the reader, on stdout, unless --quiet
  void begin();                             // creates the folder, writes config.json; --resume keeps both
  void finish(double seconds);              // writes results.json

  std::vector<Finding> findings;
  int64_t tokens = 0;  // trained on, all models together
  int trained = 0;     // models so far

 private:
  std::string experiment_;
  Options options_;
  uint64_t seed_;
  std::string folder_;
};

struct Interrupted {
  int signal;
};
// After the first SIGINT or SIGTERM this is its number; a second one ends the program at once.
int interrupted();

using AddOptions = std::function<void(CLI::App&)>;
// Parses, runs every seed, prints the findings tables, and returns the exit code: 0 every finding holds, 1 failure, 2
// usage, 3 a finding does not hold, 130 interrupted.
int run_experiment(int argc, char** argv, const Experiment& experiment, const AddOptions& add_options,
                   const std::function<void(Run&)>& body);

}  // namespace clearhead
