#include "experiments/common/snapshots.h"

#include <fmt/core.h>

#include <cmath>

#include "experiments/common/circuit_report.h"
#include "nn/circuits/heads.h"
#include "tensor/kernels.h"
#include "tensor/linalg.h"

namespace clearhead {

nlohmann::json head_snapshot(const Trace& t) {
  nlohmann::json j;
  const std::vector<double> previous = previous_token_scores(t.patterns.at(0));
  for (size_t l = 0; l < t.patterns.size(); ++l) {
    const std::string layer = std::to_string(l);
    const std::vector<double> prefix = prefix_matching_scores(t.patterns[l], t.tokens);
    std::vector<double> eigenvalues, traces;
    for (const Head& h : t.w.layers[l]) {
      eigenvalues.push_back(copying_score(token_ov(t.w, h)));
      if (l == 0) continue;
      traces.push_back(0);
      for (const Factored& f : matching(t.w, previous, h)) traces.back() += f.trace();
    }
    j["prefix_" + layer] = prefix, j["previous_" + layer] = previous_token_scores(t.patterns[l]);
    j["copying_" + layer] = raised_copying_scores(t, int64_t(l)), j["eigenvalues_" + layer] = eigenvalues;
    if (l > 0) j["qk_trace_" + layer] = traces;
    j["prefix"] = best(prefix);
  }
  j["previous"] = best(previous);
  return j;
}

std::vector<double> all_heads(const Curve& curve, const std::string& key) {
  std::vector<double> values;
  for (const auto& entry : curve)
    for (const double x : entry.at(key)) values.push_back(x);
  return values;
}

std::vector<double> rounded_losses(const Predictions& p, int64_t sequences) {
  std::vector<double> losses(p.loss.begin(), p.loss.begin() + sequences * p.T);
  for (double& x : losses) x = std::round(1000 * x) / 1000;
  return losses;
}

Apart loss_paths(const Curve& a, const Curve& b, double until) {
  require(a.size() == b.size(), "loss_paths", "the curves have ", a.size(), " and ", b.size(), " snapshots");
  const auto n = int64_t(a.size()), D = int64_t(a.at(0).at("losses").size());
  Tensor x = Tensor::empty({2 * n, D});
  for (int64_t i = 0; i < 2 * n; ++i) {
    const std::vector<double> losses = (i < n ? a[size_t(i)] : b[size_t(i - n)]).at("losses");
    std::ranges::copy(losses, x.mut().begin() + i * D);
  }
  const Svd s = svd(sub(x, scale(sum(x, 0), Real(1) / Real(2 * n)).reshape({1, D}).expand(x.shape())));
  const auto at = [&](int64_t i, int64_t c) { return double(s.U.at({i, c})) * s.S[size_t(c)]; };
  const auto distance = [&](int64_t i, int64_t j) { return std::hypot(at(i, 0) - at(j, 0), at(i, 1) - at(j, 1)); };
  Apart apart{.table = "losses on two principal components, every tenth snapshot: step, first model, second model"};
  for (int64_t i = 0; i < n; ++i) {
    const double step = a[size_t(i)].at("step");
    if (i > 0) apart.way += distance(i, i - 1);
    if (step <= until) apart.before = std::max(apart.before, distance(i, n + i));
    if (i % 10 == 0 || i == n - 1)
      apart.table += fmt::format("\n  {:>6.0f}   ({:6.1f} {:6.1f})   ({:6.1f} {:6.1f})", step, at(i, 0), at(i, 1),
                                 at(n + i, 0), at(n + i, 1));
  }
  apart.end = distance(n - 1, 2 * n - 1);
  return apart;
}

}  // namespace clearhead
