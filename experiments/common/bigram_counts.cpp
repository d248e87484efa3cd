#include "experiments/common/bigram_counts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/blas.h"
#include "tensor/kernels.h"

namespace clearhead {
namespace {

// Calls f(last, logits of the next token) for every row of W_E W_U, 128 rows at a time.
template <class F>
void for_each_row(const Tensor& W_E, const Tensor& W_U, F f) {
  const int64_t V = W_E.dim(0);
  for (int64_t first = 0; first < V; first += 128) {
    const Tensor rows = matmul(W_E.narrow(0, first, std::min<int64_t>(128, V - first)), W_U);
    for (int64_t r = 0; r < rows.dim(0); ++r) f(first + r, rows.select(0, r));
  }
}

}  // namespace

BigramCounts::BigramCounts(const std::vector<int32_t>& tokens, int64_t V)
    : V_(V), pair_(size_t(V * V)), single_(size_t(V)), next_(size_t(V)), kinds_(size_t(V)) {
  require(tokens.size() >= 2, "bigrams", "the text has ", tokens.size(), " tokens; at least 2 are needed");
  for (size_t t = 0; t + 1 < tokens.size(); ++t) {
    const auto i = size_t(tokens[t]), j = size_t(tokens[t + 1]);
    if (pair_[i * size_t(V) + j]++ == 0) ++kinds_[i];
    ++single_[i], ++next_[j], ++total_;
  }
}

double BigramCounts::conditional_entropy() const {
  double h = 0;
  for (int64_t i = 0; i < V_; ++i)
    for (int64_t j = 0; j < V_; ++j)
      if (const double n = double(count(i, j)); n > 0) h -= n * std::log(n / double(count(i)));
  return h / double(total_);
}

double BigramCounts::smoothed(int64_t i, int64_t j) const {
  constexpr double d = 0.75;
  if (count(i) == 0) return unigram(j);
  return (std::max(double(count(i, j)) - d, 0.0) + d * double(kinds_[size_t(i)]) * unigram(j)) / double(count(i));
}

double BigramCounts::unigram_loss(const BigramCounts& text) const {
  double loss = 0;
  for (int64_t j = 0; j < V_; ++j) loss -= double(text.next_[size_t(j)]) * std::log(unigram(j));
  return loss / double(text.total_);
}

double BigramCounts::bigram_loss(const BigramCounts& text) const {
  double loss = 0;
  for (int64_t i = 0; i < V_; ++i)
    for (int64_t j = 0; j < V_; ++j)
      if (text.count(i, j) > 0) loss -= double(text.count(i, j)) * std::log(smoothed(i, j));
  return loss / double(text.total_);
}

double BigramCounts::loss_of(const Tensor& W_E, const Tensor& W_U) const {
  double loss = 0;
  for_each_row(W_E, W_U, [&](int64_t i, const Tensor& logits) {
    if (count(i) == 0) return;
    const Tensor log_p = log_softmax(logits);
    for (int64_t j = 0; j < V_; ++j)
      if (count(i, j) > 0) loss -= double(count(i, j)) * double(log_p.data()[j]);
  });
  return loss / double(total_);
}

double BigramCounts::correlation(const Tensor& W_E, const Tensor& W_U) const {
  CentredCorrelation r;
  for_each_row(W_E, W_U, [&](int64_t i, const Tensor& logits) {
    std::vector<double> weight, x, y;
    for (int64_t j = 0; j < V_; ++j)
      if (const double n = double(count(i, j)); n > 0)
        weight.push_back(n), x.push_back(std::log(n / double(count(i)))), y.push_back(double(logits.data()[j]));
    r.add(weight, x, y);
  });
  return r.value();
}

void CentredCorrelation::add(const std::vector<double>& weight, const std::vector<double>& x,
                             const std::vector<double>& y) {
  double total = 0, mx = 0, my = 0;
  for (size_t i = 0; i < x.size(); ++i) total += weight[i], mx += weight[i] * x[i], my += weight[i] * y[i];
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mx / total, dy = y[i] - my / total;
    xy_ += weight[i] * dx * dy, xx_ += weight[i] * dx * dx, yy_ += weight[i] * dy * dy;
  }
}

double CentredCorrelation::value() const { return xy_ / std::sqrt(xx_ * yy_); }

std::string successors_table(const Tokenizer& tokenizer, const BigramCounts& counts, const Tensor& W_E,
                             const Tensor& W_U) {
  std::vector<int64_t> by_frequency(size_t(counts.vocab()), 0);
  std::iota(by_frequency.begin(), by_frequency.end(), 0);
  std::ranges::stable_sort(by_frequency, std::greater{}, [&](int64_t i) { return counts.count(i); });
  const auto top = [&](auto score) {
    std::vector<int64_t> order(size_t(counts.vocab()), 0);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::partial_sort(order, order.begin() + std::min<long>(5, long(order.size())), std::greater{}, score);
    std::string names;
    for (size_t k = 0; k < std::min<size_t>(5, order.size()); ++k) names += "  " + tokenizer.piece(int32_t(order[k]));
    return names;
  };
  std::string text = "after a token, the likeliest next ones: read off the weights, and (below) counted in the text\n";
  for (size_t rank = 12; rank < by_frequency.size(); rank = rank * 3 / 2) {
    const int64_t i = by_frequency[rank];
    if (counts.count(i) == 0) break;
    const Tensor logits = matmul(W_E.narrow(0, i, 1), W_U).select(0, 0);
    text += fmt::format("  {:<14} {}\n  {:<14} {}\n", tokenizer.piece(int32_t(i)),
                        top([&](int64_t j) { return double(logits.data()[j]); }), "",
                        top([&](int64_t j) { return double(counts.count(i, j)); }));
  }
  return text;
}

}  // namespace clearhead
