#include "experiments/common/in_context_markov.h"

#include <cmath>

#include "experiments/common/tasks.h"

namespace clearhead {
namespace {

// [k, k]. Normalizing columns and rows in turn makes both sum to 1.
std::vector<double> transition_matrix(int64_t k, bool doubly_stochastic, Rng& rng) {
  std::vector<double> P = dirichlet_rows(k, rng);
  const auto normalize = [&](int64_t line, int64_t step) {
    for (int64_t i = 0; i < k; ++i) {
      double total = 0;
      for (int64_t j = 0; j < k; ++j) total += P[size_t(i * line + j * step)];
      for (int64_t j = 0; j < k; ++j) P[size_t(i * line + j * step)] /= total;
    }
  };
  for (int round = 0; doubly_stochastic && round < 50; ++round) normalize(1, k), normalize(k, 1);
  return P;
}

}  // namespace

Tokens InContextMarkov::sample(int64_t B, Rng& rng) const {
  Tokens s(B, T + 1);
  for (int64_t b = 0; b < B; ++b) {
    const auto P = transition_matrix(k, doubly_stochastic, rng);
    s(b, 0) = int32_t(rng.below(k));
    for (int64_t t = 1; t <= T; ++t) s(b, t) = draw(&P[size_t(s(b, t - 1) * k)], k, rng);
  }
  return s;
}

Tensor predictions_of(Strategy strategy, const Tokens& x, int64_t k) {
  Tensor p({x.B, x.T, k}, Real(1) / Real(k));
  if (strategy == uniform) return p;
  const auto out = p.mut();
  for (int64_t b = 0; b < x.B; ++b) {
    std::vector<double> n(size_t(k * k), 0), seen(size_t(k), 0);
    for (int64_t t = 0; t < x.T; ++t) {
      const int64_t i = x(b, t);
      ++seen[size_t(i)];
      if (t > 0) ++n[size_t(x(b, t - 1) * k + i)];
      double n_i = 0;
      for (int64_t j = 0; j < k; ++j) n_i += n[size_t(i * k + j)];
      for (int64_t j = 0; j < k; ++j)
        out[size_t((b * x.T + t) * k + j)] = Real(strategy == unigram ? (seen[size_t(j)] + 1) / double(t + 1 + k)
                                                                      : (n[size_t(i * k + j)] + 1) / (n_i + double(k)));
    }
  }
  return p;
}

double kl(const Tensor& p, const Tensor& q) {
  require(p.shape() == q.shape() && p.rank() == 3, "kl", "shapes differ: ", p.shape(), " and ", q.shape());
  const Tensor a = p.contiguous(), b = q.contiguous();
  double sum = 0;
  for (size_t i = 0; i < a.flat().size(); ++i)
    if (a.flat()[i] > 0) sum += double(a.flat()[i]) * std::log(double(a.flat()[i]) / double(b.flat()[i]));
  return sum / double(p.dim(0) * p.dim(1));
}

}  // namespace clearhead
