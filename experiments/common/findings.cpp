#include "experiments/common/findings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tensor/error.h"

namespace clearhead {
namespace {

using Json = nlohmann::json;

constexpr std::array kind_names{"identity", "planted", "empirical"};

double number(const Json& j) { return j.is_null() ? std::numeric_limits<double>::quiet_NaN() : j.get<double>(); }

// Four digits that matter, as short as possible: 0.9312, 12.5, 3.1e-07.
std::string digits(double x) { return fmt::format("{:.4g}", x); }

std::string controls(const Finding& f) {
  std::string text;
  for (const auto& [what, value] : f.controls)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, digits(value));
  return text;
}

}  // namespace

bool Finding::holds(double v) const {
  return bound.op == ">=" ? v >= bound.threshold : bound.op == "<=" && v <= bound.threshold;
}

Json to_json(const Finding& f) {
  return {{"id", f.id},
          {"claim", f.claim},
          {"kind", kind_names[f.kind]},
          {"metric", f.metric},
          {"value", f.value},
          {"op", f.bound.op},
          {"threshold", f.bound.threshold},
          {"controls", f.controls},
          {"reported", f.reported},
          {"source", f.source},
          {"holds", f.holds()}};
}

Finding finding_from_json(const Json& j) {
  const auto kind = std::ranges::find(kind_names, j.at("kind").get<std::string>());
  require(kind != kind_names.end(), "finding", "unknown kind ", j.at("kind").dump());
  Finding f{
      Kind(kind - kind_names.begin()),         j.at("id"), j.at("claim"),    j.at("metric"), number(j.at("value")),
      {j.at("op"), number(j.at("threshold"))}, {},         j.at("reported"), j.at("source")};
  for (const auto& [what, value] : j.at("controls").items()) f.controls[what] = number(value);
  return f;
}

std::string findings_table(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) {
    text +=
        fmt::format("  {}  {:<4} {}\n              {} = {}  (holds if {} {})\n", f.holds() ? "holds   " : "FAILS   ",
                    f.id, f.claim, f.metric, digits(f.value), f.bound.op, digits(f.bound.threshold));
    if (!f.controls.empty()) text += fmt::format("              controls: {}\n", controls(f));
    if (!f.reported.empty()) text += fmt::format("              reported: {}\n", f.reported);
  }
  const auto n = std::ranges::count_if(findings, [](const Finding& f) { return f.holds(); });
  return text + fmt::format("  {} of {} findings hold\n", n, findings.size());
}

std::string seeds_table(const std::vector<std::vector<Finding>>& runs) {
  struct Row {
    Finding finding;
    std::vector<double> values;
  };
  std::vector<Row> rows;
  for (const auto& findings : runs)
    for (const Finding& f : findings) {
      const auto same = [&](const Row& r) { return r.finding.id == f.id && r.finding.metric == f.metric; };
      auto row = std::ranges::find_if(rows, same);
      if (row == rows.end()) row = rows.insert(rows.end(), {f, {}});
      row->values.push_back(f.value);
    }
  size_t width = 0;
  for (const Row& r : rows) width = std::max(width, r.finding.metric.size());
  std::string text = fmt::format("  {:<4} {:<{}} {:>5} {:>10} {:>10}  {:<10}  {}\n", "id", "metric", width, "holds",
                                 "median", "worst", "holds if", "reported by the source");
  for (auto& [f, values] : rows) {
    const auto n = std::ranges::count_if(values, [&](double v) { return f.holds(v); });
    // Worst first; NaN, which never holds, is worse than any number.
    std::ranges::sort(values, [&](double a, double b) {
      if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
      return f.bound.op == ">=" ? a < b : a > b;
    });
    text += fmt::format("  {:<4} {:<{}} {:>5} {:>10} {:>10}  {:<10}  {}\n", f.id, f.metric, width,
                        fmt::format("{}/{}", n, values.size()), digits(values[values.size() / 2]),
                        digits(values.front()), f.bound.op + " " + digits(f.bound.threshold), f.reported);
  }
  return text;
}

}  // namespace clearhead
