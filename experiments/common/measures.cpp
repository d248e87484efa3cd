#include "experiments/common/measures.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "nn/circuits/heads.h"
#include "tensor/hot.h"
#include "tensor/kernels.h"

namespace clearhead {
namespace {

Tokens rows(const Tokens& t, int64_t first, int64_t count) {
  Tokens part(count, t.T);
  std::copy_n(t.ids.begin() + first * t.T, count * t.T, part.ids.begin());
  return part;
}

}  // namespace

double Predictions::mean_loss_at(int64_t t) const {
  double sum = 0;
  for (int64_t b = 0; b < B; ++b) sum += loss[size_t(b * T + t)];
  return sum / double(B);
}

Predictions predict(const Transformer& model, const Batch& batch, const Probe& probe) {
  return predict(model, batch, [&](const Tokens&) { return probe; });
}

Predictions predict(const Transformer& model, const Batch& batch, const std::function<Probe(const Tokens&)>& probe) {
  const NoGrad no_grad;
  const int64_t B = batch.inputs.B, T = batch.inputs.T, V = model.config.d_vocab, most = 16;
  Predictions p{B, T, {}, {}};
  for (int64_t first = 0; first < B; first += most) {
    const int64_t count = std::min(most, B - first);
    const Tokens inputs = rows(batch.inputs, first, count);
    Probe own = probe(inputs);
    const Tensor logits = model.logits(inputs, own).value();
    for (int64_t i = 0; i < count * T; ++i) {
      const Real* const row = logits.data() + i * V;
      const int32_t target = batch.targets.ids[size_t(first * T + i)];
      p.best.push_back(int32_t(std::max_element(row, row + V) - row));
      p.loss.push_back(target < 0 ? 0 : double(hot::log_sum_exp(row, V)) - double(row[target]));
    }
  }
  return p;
}

double induction_accuracy(const Predictions& p, const Batch& batch) {
  const auto source = induction_sources(batch.inputs);
  int64_t n = 0, right = 0;
  for (size_t i = 0; i < source.size(); ++i)
    if (source[i] >= 0) ++n, right += p.best[i] == batch.targets.ids[i];
  return n ? double(right) / double(n) : std::numeric_limits<double>::quiet_NaN();  // null in a file
}

double order_blind_accuracy(const Batch& batch) {
  const Tokens& x = batch.inputs;
  const auto source = induction_sources(x);
  double any = 0, most = 0, least = 0, n = 0;
  for (int64_t b = 0; b < x.B; ++b) {
    std::map<int32_t, int64_t> counts;
    for (int64_t t = 0; t < x.T; ++t) {
      ++counts[x(b, t)];
      if (source[size_t(b * x.T + t)] < 0) continue;
      ++n;
      const auto target = counts.find(batch.targets(b, t));
      if (target == counts.end()) continue;
      int64_t highest = 0, lowest = x.T;
      for (const auto& [token, count] : counts) highest = std::max(highest, count), lowest = std::min(lowest, count);
      const auto with = [&](int64_t c) {
        return double(std::ranges::count_if(counts, [c](const auto& e) { return e.second == c; }));
      };
      any += 1 / double(counts.size());
      if (target->second == highest) most += 1 / with(highest);
      if (target->second == lowest) least += 1 / with(lowest);
    }
  }
  return std::max({any, most, least}) / n;
}

double copied_accuracy(const Predictions& p, const Tokens& targets, const std::vector<CopiedPosition>& where) {
  double right = 0;
  for (const CopiedPosition& c : where) right += p.best[size_t(c.b * p.T + c.t)] == targets(c.b, c.t);
  return right / double(where.size());
}

double mean_loss_where(const std::vector<double>& loss, const Tokens& inputs, bool repeated) {
  const auto source = induction_sources(inputs);
  double sum = 0, n = 0;
  for (size_t i = 0; i < loss.size(); ++i)
    if ((source[i] >= 0) == repeated) sum += loss[i], ++n;
  return sum / n;
}

double follow_rate(const Transformer& model, const Swapped& s, const Probe& probe) {
  const Predictions p = predict(model, {s.tokens, s.tokens}, probe);
  const auto follows = [&](const auto& e) { return p.best[e.first] == e.second; };
  return double(std::ranges::count_if(s.expected, follows)) / double(s.expected.size());
}

double icl_score(const Predictions& p) { return icl_score(p, 0.98, 0.1); }

double icl_score(const Predictions& p, double late, double early, double around) {
  const auto reach = int64_t(around * double(p.T));
  const auto loss = [&](double where) {
    const auto centre = int64_t(where * double(p.T));
    double sum = 0;
    for (int64_t t = centre - reach; t <= centre + reach; ++t) sum += p.mean_loss_at(t);
    return sum / double(2 * reach + 1);
  };
  return loss(late) - loss(early);
}

HeadScores head_scores(const Transformer& model, const Tokens& tokens) {
  const NoGrad no_grad;
  Probe probe;
  probe.capture("blocks.*.attn.pattern");
  model.stream(tokens, probe);
  HeadScores s;
  for (size_t l = 0; l < model.blocks.size(); ++l) {
    const Tensor& pattern = probe["blocks." + std::to_string(l) + ".attn.pattern"];
    s.previous.push_back(previous_token_scores(pattern));
    s.duplicate.push_back(duplicate_token_scores(pattern, tokens));
    s.prefix.push_back(prefix_matching_scores(pattern, tokens));
  }
  return s;
}

std::string to_string(const HeadScores& s) {
  std::string text = "head    previous token   duplicate token   prefix matching";
  for (size_t l = 0; l < s.prefix.size(); ++l)
    for (size_t h = 0; h < s.prefix[l].size(); ++h)
      text += fmt::format("\nL{}H{:<4} {:>14.3f} {:>17.3f} {:>17.3f}", l, h, s.previous[l][h], s.duplicate[l][h],
                          s.prefix[l][h]);
  return text;
}

std::string pattern_table(const Tensor& pattern, const std::vector<std::string>& names) {
  std::string text = "     ";
  for (const std::string& name : names) text += fmt::format("{:>5}", name);
  for (int64_t i = 0; i < pattern.dim(0); ++i) {
    text += fmt::format("\n{:>5}", names[size_t(i)]);
    for (int64_t j = 0; j < pattern.dim(1); ++j)
      text += j > i ? "    ." : fmt::format("{:>5.1f}", double(pattern.at({i, j})));
  }
  return text;
}

double best(const std::vector<double>& heads) { return heads.empty() ? 0 : *std::ranges::max_element(heads); }
double best(const std::vector<std::vector<double>>& layers) {
  double b = 0;
  for (const auto& heads : layers) b = std::max(b, best(heads));
  return b;
}

double mean_loss(const Predictions& p, const Batch& batch) {
  const auto known = std::ranges::count_if(batch.targets.ids, [](int32_t id) { return id >= 0; });
  return std::accumulate(p.loss.begin(), p.loss.end(), 0.0) / double(known);
}

}  // namespace clearhead
