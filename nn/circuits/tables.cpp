#include "nn/circuits/tables.h"

#include <algorithm>
#include <cmath>

#include "tensor/blas.h"
#include "tensor/kernels.h"
#include "tensor/parallel.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

// The `keep` largest of n numbers, largest first. Most numbers are compared once, with the smallest that is kept.
std::vector<Entry> largest(const Real* x, int64_t n, int64_t keep) {
  std::vector<Entry> found;
  for (int64_t j = 0; keep > 0 && j < n; ++j) {
    const double value = double(x[j]);
    if (int64_t(found.size()) == keep) {
      if (!(value > found.back().value)) continue;
      found.pop_back();
    }
    const auto place = std::ranges::upper_bound(found, value, std::greater(), &Entry::value);
    found.insert(place, {j, value});
  }
  return found;
}

}  // namespace

std::vector<std::vector<Entry>> top_of_rows(const Factored& table, const std::vector<int64_t>& rows, int64_t k) {
  const int64_t n = table.cols(), r = table.rank(), keep = std::min(k, n);
  const Tensor A = table.A.contiguous();
  std::vector<std::vector<Entry>> top;
  for (size_t begin = 0; begin < rows.size(); begin += 256) {
    const size_t count = std::min<size_t>(256, rows.size() - begin);
    Tensor some = Tensor::empty({int64_t(count), r});
    for (size_t i = 0; i < count; ++i) {
      const int64_t row = rows[begin + i];
      require(row >= 0 && row < table.rows(), "tables", "row ", row, " is outside 0..", table.rows() - 1);
      std::copy_n(A.data() + row * r, r, some.mut().data() + int64_t(i) * r);
    }
    const Tensor block = matmul(some, table.B);
    top.resize(begin + count);
    parallel_for(int64_t(count), 16, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) top[begin + size_t(i)] = largest(block.data() + i * n, n, keep);
    });
  }
  return top;
}

Factored centred_over_rows(const Factored& table, const std::vector<double>& p) {
  require(int64_t(p.size()) == table.rows(), "tables", "there are ", p.size(), " frequencies for ", table.rows(),
          " rows");
  const Tensor A = table.A.contiguous();
  const Tensor weights = Tensor::from({1, table.rows()}, p);
  return {sub(A, matmul(weights, A).expand(A.shape()).contiguous()), table.B};
}

std::vector<SkipTrigrams> skip_trigrams(const Weights& w, const Head& h, const std::vector<int64_t>& sources, int64_t k,
                                        const std::vector<double>& frequencies) {
  const auto destinations = top_of_rows(centred_over_rows(token_qk(w, h).transpose(), frequencies), sources, k);
  const auto outs = top_of_rows(centred_over_rows(token_ov(w, h), frequencies), sources, k);
  std::vector<SkipTrigrams> found;
  for (size_t i = 0; i < sources.size(); ++i) found.push_back({sources[i], destinations[i], outs[i]});
  return found;
}

std::vector<double> skip_trigram_logits(const Weights& w, int64_t source, int64_t destination,
                                        const std::vector<double>& frequencies, double others) {
  require(w.layers.size() == 1, "tables", "needs one layer, the model has ", w.layers.size());
  const int64_t V = w.V(), d = w.d_model();
  const Tensor W_E = w.W_E.contiguous(), x = W_E.narrow(0, destination, 1);
  Tensor stream = x.clone();
  for (const Head& h : w.layers[0]) {
    const Factored circuit = qk(h);
    const Tensor scores = matmul(matmul(x, circuit.A), matmul(W_E, circuit.B.transpose()).transpose());  // [1, V]
    double most = double(scores.at({0, 0})), Z = 0;
    for (Real s : scores.flat()) most = std::max(most, double(s));
    Tensor weights({1, V});
    for (int64_t t = 0; t < V; ++t) {
      const double times = double(t == source) + double(t == destination) + others * frequencies[size_t(t)];
      const double weight = times * std::exp(double(scores.at({0, t})) - most);
      weights.mut()[size_t(t)] = Real(weight), Z += weight;
    }
    add_into(stream, scale(matmul(matmul(matmul(weights, W_E), h.W_V), h.W_O), Real(1 / Z)));
  }
  const Tensor logits = matmul(stream.reshape({1, d}), w.W_U);
  return {logits.flat().begin(), logits.flat().end()};
}

}  // namespace clearhead::inline CLEARHEAD_REAL
