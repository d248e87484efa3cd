#include "experiments/common/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace clearhead {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();  // null in a file

// Ranks 1 .. n, equal values sharing their mean rank.
std::vector<double> ranks(const std::vector<double>& x) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t i) { return x[i]; });
  std::vector<double> rank(x.size());
  for (size_t i = 0, j; i < order.size(); i = j) {
    for (j = i; j < order.size() && x[order[j]] == x[order[i]];) ++j;
    for (size_t k = i; k < j; ++k) rank[order[k]] = double(i + j + 1) / 2;
  }
  return rank;
}

double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const double n = double(x.size());
  const double mx = std::accumulate(x.begin(), x.end(), 0.0) / n, my = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mx) * (y[i] - my);
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
  }
  return xy / std::sqrt(xx * yy);
}

std::vector<double> column(const Curve& curve, const std::string& key) {
  std::vector<double> values;
  for (const auto& entry : curve) values.push_back(entry.at(key).is_null() ? undefined : entry.at(key).get<double>());
  return values;
}

}  // namespace

Rise rise(const Curve& curve, const std::string& key) {
  const auto y = column(curve, key), step = column(curve, "step");
  const size_t tail = std::max<size_t>(1, y.size() / 10);
  const double first = y.front(), last = std::accumulate(y.end() - long(tail), y.end(), 0.0) / double(tail);
  const auto crossing = [&](double share) {
    for (size_t i = 1; i < y.size(); ++i) {
      const double before = (y[i - 1] - first) / (last - first), after = (y[i] - first) / (last - first);
      if (after >= share)
        return step[i - 1] + (step[i] - step[i - 1]) * std::clamp((share - before) / (after - before), 0.0, 1.0);
    }
    return undefined;
  };
  return {crossing(0.1), crossing(0.5), crossing(0.9)};
}

double rank_correlation(const Curve& curve, const std::string& a, const std::string& b) {
  return rank_correlation(column(curve, a), column(curve, b));
}

double rank_correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const auto is_nan = [](double v) { return std::isnan(v); };
  if (std::ranges::any_of(x, is_nan) || std::ranges::any_of(y, is_nan)) return undefined;  // no order, so no ranks
  return correlation(ranks(x), ranks(y));
}

}  // namespace clearhead
