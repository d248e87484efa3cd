#include "experiments/common/tasks.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace clearhead {

Tokens RepeatedSegment::sample(int64_t B, Rng& rng) const {
  require(shortest >= 1 && shortest <= longest && 2 * longest - 1 <= V, "task", "segments of ", shortest, " to ",
          longest, " tokens and a prefix need 1 <= shortest <= longest <= (V + 1) / 2, V is ", V);
  Tokens s(B, T + 1);
  for (int64_t b = 0; b < B; ++b) {
    const int64_t n = fixed ? (shortest + longest) / 2 : shortest + rng.below(longest - shortest + 1);
    const int64_t prefix = fixed ? 0 : rng.below(n);
    const auto token = rng.permutation(int32_t(V));
    for (int64_t t = 0; t <= T; ++t) s(b, t) = token[size_t(t < prefix + n ? t : prefix + (t - prefix) % n)];
  }
  return s;
}

// Before the first repeat, all t tokens so far are distinct. The next one is new, or the first of the segment: the
// prefix was p long and the segment n = t - p. Each pair (n, p < n) has weight 1/n; those with p + n > t expect a new
// token, uniform over the V - t others, and those with p + n = t expect token p. After the first repeat everything is
// certain.
std::vector<double> RepeatedSegment::bayes_loss(const Tokens& s) const {
  require(!fixed, "task", "bayes_loss is for random offsets: at a fixed one the repeat comes at a known position");
  std::vector<double> loss(size_t(s.B * T), 0);
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t t = 1; t <= T; ++t) {  // predicting token t from the t tokens before it
      std::vector<double> repeat_at(size_t(longest), 0);
      double all = 0;
      for (int64_t n = shortest; n <= longest; ++n)
        for (int64_t p = 0; p < n; ++p) {
          if (p + n < t) continue;  // would have repeated already
          all += 1.0 / double(n);
          if (p + n == t) repeat_at[size_t(p)] += 1.0 / double(n);
        }
      const auto earlier = [&](int64_t j) { return s(b, j) == s(b, t); };
      int64_t j = 0;
      while (j < t && !earlier(j)) ++j;
      double repeats = 0;
      for (double r : repeat_at) repeats += r;
      const double p = j < t ? repeat_at[size_t(j)] / all : (all - repeats) / all / double(V - t);
      loss[size_t(b * T + t - 1)] = -std::log(p);
      if (j < t) break;  // this was the first repeat: the rest has loss 0
    }
  return loss;
}

nlohmann::json to_json(const RepeatedSegment& t) {
  return {{"V", t.V}, {"T", t.T}, {"shortest", t.shortest}, {"longest", t.longest}, {"fixed", t.fixed}};
}

std::vector<int64_t> induction_sources(const Tokens& x) {
  std::vector<int64_t> source(x.ids.size(), -1);
  for (int64_t b = 0; b < x.B; ++b)
    for (int64_t t = 0; t < x.T; ++t)
      for (int64_t j = t - 1; j >= 0; --j)
        if (x(b, j) == x(b, t)) {
          source[size_t(b * x.T + t)] = j + 1;
          break;
        }
  return source;
}

Swapped swap_sources(Tokens x, int64_t V, Rng& rng) {
  const auto source = induction_sources(x);
  Swapped swapped;
  for (int64_t b = 0; b < x.B; ++b) {
    const auto begin = x.ids.begin() + b * x.T, end = begin + x.T;
    const int64_t t = x.T / 4 + rng.below(x.T - x.T / 4);
    if (std::count(begin, begin + t, begin[t]) != 1) continue;
    int32_t token;
    do token = int32_t(rng.below(V));
    while (std::find(begin, end, token) != end);
    begin[source[size_t(b * x.T + t)]] = token;
    swapped.expected.emplace_back(size_t(b * x.T + t), token);
  }
  swapped.tokens = std::move(x);
  return swapped;
}

Tokens begun_with(Tokens tokens, int32_t bos) {
  for (int64_t b = 0; b < tokens.B; ++b) tokens(b, 0) = bos;
  return tokens;
}

Batch other_successors(int64_t B, int64_t V, int32_t bos, Rng& rng) {
  constexpr int64_t n = 30;
  require(V >= n, "other_successors", "needs ", n, " different tokens, not ", V);
  Batch batch{Tokens(B, n + 2), Tokens(B, n + 2)};
  std::ranges::fill(batch.targets.ids, -1);
  for (int64_t b = 0; b < B; ++b) {
    const std::vector<int32_t> order = rng.permutation(int32_t(V));
    const int64_t a = rng.below(n - 2);
    int64_t c;
    do c = rng.below(n);
    while (c == a || c == a + 1);
    batch.inputs(b, 0) = bos;
    std::copy_n(order.begin(), n, batch.inputs.ids.begin() + b * (n + 2) + 1);
    batch.inputs(b, n + 1) = order[size_t(a)], batch.targets(b, n + 1) = order[size_t(c)];
  }
  return batch;
}

Tokens repeated(const Tokens& x, int64_t times) {
  Tokens out(x.B, times * x.T);
  for (int64_t b = 0; b < x.B; ++b)
    for (int64_t t = 0; t < out.T; ++t) out(b, t) = x(b, t % x.T);
  return out;
}

Tokens repeated_random(int64_t B, int64_t L, int64_t repeats, int64_t V, Rng& rng) {
  Tokens segment(B, L);
  for (int32_t& id : segment.ids) id = int32_t(rng.below(V));
  return repeated(segment, repeats);
}

Tokens SkipTrigramLanguage::sample(int64_t B, Rng& rng) const {
  require(longest_gap + 3 <= T && shortest_gap >= 1 && shortest_gap <= longest_gap, "skip_trigrams", "gaps of ",
          shortest_gap, " to ", longest_gap, " do not fit into ", T, " tokens");
  Tokens tokens(B, T + 1);
  const int64_t first_noise = V() - noise;
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = 0; t <= T; ++t) {
      const bool follows = t > 0 && rng.uniform() < 0.5;
      const int64_t last = t > 0 ? tokens(b, t - 1) - first_noise : 0;
      tokens(b, t) = int32_t(first_noise + (follows ? (last + 1) % noise : rng.below(noise)));
    }
    const int64_t gap = shortest_gap + rng.below(longest_gap - shortest_gap + 1), at = rng.below(T - gap);
    const int64_t s = rng.below(sources), d = rng.below(destinations);
    tokens(b, at) = source(s), tokens(b, at + gap) = destination(d), tokens(b, at + gap + 1) = out(s, d);
  }
  return tokens;
}

BurstyLanguage::BurstyLanguage(Rng rng) {
  follows.resize(size_t(V));
  for (int32_t i = 0; i < V; ++i) follows[size_t(i)] = i;
  for (int64_t i = V - 1; i > 0; --i) std::swap(follows[size_t(i)], follows[size_t(rng.below(i + 1))]);
}

Tokens BurstyLanguage::sample(int64_t B, Rng& rng) const {
  Tokens tokens(B, T + 1);
  std::vector<int32_t> about(static_cast<size_t>(topic));
  for (int64_t b = 0; b < B; ++b) {
    for (int32_t& token : about) token = int32_t(rng.below(V));
    for (int64_t t = 0; t <= T; ++t)
      tokens(b, t) =
          t < 2 || rng.uniform() < burst ? about[size_t(rng.below(topic))] : follows[size_t(tokens(b, t - 2))];
  }
  return tokens;
}

std::vector<double> dirichlet_rows(int64_t k, Rng& rng) {
  std::vector<double> P(size_t(k * k));
  for (int64_t i = 0; i < k; ++i) {  // normalized exponentials
    double total = 0;
    for (int64_t j = 0; j < k; ++j) total += P[size_t(i * k + j)] = -std::log(1 - rng.uniform());
    for (int64_t j = 0; j < k; ++j) P[size_t(i * k + j)] /= total;
  }
  return P;
}

int32_t draw(const double* p, int64_t k, Rng& rng) {
  double u = rng.uniform();
  int32_t j = 0;
  while (j + 1 < k && (u -= p[j]) >= 0) ++j;
  return j;
}

MarkovChain::MarkovChain(int64_t v, Rng rng) : V(v), P(dirichlet_rows(v, rng)), pi(size_t(v), 1 / double(v)) {
  for (int step = 0; step < 10'000; ++step) {
    std::vector<double> next(size_t(V), 0);
    double change = 0;
    for (int64_t i = 0; i < V; ++i)
      for (int64_t j = 0; j < V; ++j) next[size_t(j)] += pi[size_t(i)] * P[size_t(i * V + j)];
    for (size_t j = 0; j < next.size(); ++j) change += std::abs(next[j] - pi[j]);
    pi = next;
    if (change < 1e-15) break;
  }
}

Tokens MarkovChain::sample(int64_t B, int64_t length, Rng& rng) const {
  Tokens s(B, length);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t t = 0; t < length; ++t) s(b, t) = draw(t == 0 ? pi.data() : &P[size_t(s(b, t - 1) * V)], V, rng);
  return s;
}

double MarkovChain::entropy() const {
  double h = 0;
  for (size_t k = 0; k < P.size(); ++k)
    if (P[k] > 0) h -= pi[k / size_t(V)] * P[k] * std::log(P[k]);
  return h;
}

double MarkovChain::unigram_entropy() const {
  double h = 0;
  for (double p : pi) h -= p * std::log(p);
  return h;
}

}  // namespace clearhead
