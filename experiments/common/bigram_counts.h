// Counted bigrams of a text, as the oracle for zero-layer models: what a table of counts achieves on the same tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/common/tokenizer.h"
#include "tensor/tensor.h"

namespace clearhead {

class BigramCounts {
 public:
  BigramCounts(const std::vector<int32_t>& tokens, int64_t V);

  int64_t count(int64_t last, int64_t next) const { return pair_[size_t(last * V_ + next)]; }
  int64_t count(int64_t last) const { return single_[size_t(last)]; }  // as the first of a pair
  int64_t vocab() const { return V_; }

  // H(next | last) of these counts, in nats: the training loss of the best possible bigram table.
  double conditional_entropy() const;
  // Mean loss over the pairs of another text: of single-token frequencies with one added count; and of bigram
  // frequencies with absolute discounting, d = 0.75:  p(j | i) = max(n_ij - d, 0) / n_i + d * kinds_i / n_i * p(j).
  double unigram_loss(const BigramCounts& text) const;
  double bigram_loss(const BigramCounts& text) const;
  // The loss of the zero-layer model on the pairs of this text, exact, without ever forming the V x V table at once.
  double loss_of(const Tensor& W_E, const Tensor& W_U) const;
  // Correlation of W_E W_U with ln(n_ij / n_i) over the pairs that occur, weighted with their counts and centred for
  // every `last` (the softmax ignores a constant).
  double correlation(const Tensor& W_E, const Tensor& W_U) const;

 private:
  double smoothed(int64_t last, int64_t next) const;
  double unigram(int64_t next) const { return (double(next_[size_t(next)]) + 1) / double(total_ + V_); }
  int64_t V_, total_ = 0;
  std::vector<int32_t> pair_;
  std::vector<int64_t> single_, next_, kinds_;
};

// The weighted Pearson correlation of x and y, both centred within each group that is added.
class CentredCorrelation {
 public:
  void add(const std::vector<double>& weight, const std::vector<double>& x, const std::vector<double>& y);
  double value() const;

 private:
  double xy_ = 0, xx_ = 0, yy_ = 0;
};

// For a spread of frequent tokens, the top successors by the weights next to those by the counts.
std::string successors_table(const Tokenizer& tokenizer, const BigramCounts& counts, const Tensor& W_E,
                             const Tensor& W_U);

}  // namespace clearhead
