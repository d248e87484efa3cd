// A finding: one claim of a paper, as a number with a threshold that was fixed before the run, next to its controls.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clearhead {

enum Kind {
  identity,   // a theorem: if it fails there is a bug
  planted,    // the truth is known, since we made it
  empirical,  // may fail, and is reported as failing then
};

struct Bound {
  std::string op;  // ">=" or "<="
  double threshold;
};
inline Bound at_least(double threshold) { return {">=", threshold}; }
inline Bound at_most(double threshold) { return {"<=", threshold}; }

struct Finding {
  Kind kind;
  std::string id;  // as in the README's table: T8, I6, ...
  std::string claim, metric;
  double value;
  Bound bound;
  std::map<std::string, double> controls;  // the same metric where it should not show
  std::string reported;                    // what the source reports, with its setting
  std::string source;

  bool holds() const { return holds(value); }
  bool holds(double other_value) const;  // NaN never does
};

nlohmann::json to_json(const Finding& f);
Finding finding_from_json(const nlohmann::json& j);

// One line per finding, for a terminal.
std::string findings_table(const std::vector<Finding>& findings);
// One line per finding over several runs: in how many it holds, median and worst value.
std::string seeds_table(const std::vector<std::vector<Finding>>& runs);

}  // namespace clearhead
