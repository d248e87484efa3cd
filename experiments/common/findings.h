// A finding: one claim of a paper, as a number with a threshold that was fixed before the run, next to its controls.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clearhead {

struct Finding {
  std::string id;                          // as in the README's table: T8, I6, ...
  std::string claim;
  std::string kind;                        // identity (must hold: else a bug) | planted (known truth) | empirical (may fail)
  std::string metric;
  double value = 0;
  std::string op;                          // ">=" or "<="
  double threshold = 0;
  std::map<std::string, double> controls = {};  // the same metric where it should not show
  std::string reported = {};               // what the source reports, with its setting
  std::string source = {};

  bool holds() const;                      // NaN never does
};

nlohmann::json to_json(const Finding& f);
Finding finding_from_json(const nlohmann::json& j);

// One line per finding, for a terminal.
std::string findings_table(const std::vector<Finding>& findings);
// One line per finding over several runs: in how many it holds, median and worst value.
std::string seeds_table(const std::vector<std::vector<Finding>>& runs);

}  // namespace clearhead
