#include "experiments/common/findings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/error.h"

namespace clearhead {
namespace {

using Json = nlohmann::json;

double number(const Json& j) { return j.is_null() ? std::numeric_limits<double>::quiet_NaN() : j.get<double>(); }

// Four digits that matter, as short as possible: 0.9312, 12.5, 3.1e-07.
std::string digits(double x) { return fmt::format("{:.4g}", x); }

std::string controls(const Finding& f) {
  std::string text;
  for (const auto& [what, value] : f.controls) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, digits(value));
  return text;
}

}  // namespace

bool Finding::holds() const { return op == ">=" ? value >= threshold : op == "<=" && value <= threshold; }

Json to_json(const Finding& f) {
  return {{"id", f.id}, {"claim", f.claim}, {"kind", f.kind}, {"metric", f.metric}, {"value", f.value}, {"op", f.op},
          {"threshold", f.threshold}, {"controls", f.controls}, {"reported", f.reported}, {"source", f.source},
          {"holds", f.holds()}};
}

Finding finding_from_json(const Json& j) {
  Finding f{.id = j.at("id"), .claim = j.at("claim"), .kind = j.at("kind"), .metric = j.at("metric"), .value = number(j.at("value")),
            .op = j.at("op"), .threshold = number(j.at("threshold")), .controls = {}, .reported = j.at("reported"),
            .source = j.at("source")};
  for (const auto& [what, value] : j.at("controls").items()) f.controls[what] = number(value);
  return f;
}

std::string findings_table(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) {
    text += fmt::format("  {}  {:<4} {}\n              {} = {}  (holds if {} {})\n", f.holds() ? "holds   " : "FAILS   ", f.id, f.claim,
                        f.metric, digits(f.value), f.op, digits(f.threshold));
    if (!f.controls.empty()) text += fmt::format("              controls: {}\n", controls(f));
    if (!f.reported.empty()) text += fmt::format("              reported: {}\n", f.reported);
  }
  const auto n = std::ranges::count_if(findings, &Finding::holds);
  return text + fmt::format("  {} of {} findings hold\n", n, findings.size());
}

std::string seeds_table(const std::vector<std::vector<Finding>>& runs) {
  std::vector<std::pair<Finding, std::vector<double>>> rows;
  for (const auto& findings : runs)
    for (const Finding& f : findings) {
      auto row = std::ranges::find_if(rows, [&](const auto& r) { return r.first.id == f.id && r.first.metric == f.metric; });
      if (row == rows.end()) row = rows.insert(rows.end(), {f, {}});
      row->second.push_back(f.value);
    }
  std::string text = fmt::format("  {:<4} {:<64} {:>6}  {:>9}  {:>9}  {:>12}\n", "id", "metric", "holds", "median", "worst", "holds if");
  for (auto& [f, values] : rows) {
    const auto n = std::ranges::count_if(values, [&](double v) { Finding g = f; g.value = v; return g.holds(); });
    std::ranges::sort(values, [&](double a, double b) { return f.op == ">=" ? a < b : a > b; });  // worst first
    text += fmt::format("  {:<4} {:<64} {:>6}  {:>9}  {:>9}  {:>12}\n", f.id, f.metric, fmt::format("{}/{}", n, values.size()),
                        digits(values[values.size() / 2]), digits(values.front()), f.op + " " + digits(f.threshold));
  }
  return text;
}

}  // namespace clearhead
