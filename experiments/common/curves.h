// What is made of a training curve: when it rises, and whether two of its numbers go together.
#pragma once

#include <string>
#include <vector>

#include "experiments/common/train.h"

namespace clearhead {

// When a curve rises from its first value to its plateau (the mean of its last tenth): the steps at which it first
// passes 10, 50 and 90 % of the way, interpolated. NaN where there is no way to go.
struct Rise {
  double t10, t50, t90;
};
Rise rise(const Curve& curve, const std::string& key);
// Spearman's rank correlation of two logged quantities, over the logged steps. NaN if one is undefined somewhere.
double rank_correlation(const Curve& curve, const std::string& a, const std::string& b);
double rank_correlation(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace clearhead
