// findings DIR: the scoreboard. Reads every results.json below a folder, and prints for each finding in how many seeds
// it holds, its median and worst value, its threshold, and what the source reports.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>

#include "experiments/common/findings.h"
#include "nn/files.h"
#include "tensor/error.h"

using namespace clearhead;

namespace {

// The findings of one run, by the name of its experiment.
using Scoreboard = std::map<std::string, std::vector<std::vector<Finding>>>;

Scoreboard read(const std::string& folder) {
  require(std::filesystem::is_directory(folder), folder, "is not a folder");
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().filename() == "results.json") paths.push_back(entry.path().string());
  std::ranges::sort(paths);
  require(!paths.empty(), folder, "holds no results.json; run an experiment first");
  Scoreboard board;
  for (const std::string& path : paths) try {
      const auto results = nlohmann::json::parse(read_file(path));
      auto& runs = board[results.at("experiment")];
      runs.emplace_back();
      for (const auto& f : results.at("findings")) runs.back().push_back(finding_from_json(f));
    } catch (const nlohmann::json::exception& e) {
      fail(path, "is not a results file: ", e.what());
    }
  return board;
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder = "runs";
  CLI::App app("The scoreboard over every results.json below a folder.", "findings");
  app.add_option("DIR", folder, "folder to look in")->capture_default_str();
  try {
    app.parse(argc, argv);
    bool all_hold = true;
    for (const auto& [experiment, runs] : read(folder)) {
      fmt::print("{}, {} run{}\n{}\n", experiment, runs.size(), runs.size() == 1 ? "" : "s", seeds_table(runs));
      for (const auto& findings : runs)
        all_hold &= std::ranges::all_of(findings, [](const Finding& f) { return f.holds(); });
    }
    return all_hold ? 0 : 3;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "findings: {} (see findings --help)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "findings: {}\n", error.what());
    return 1;
  }
}
