#include "experiments/common/circuit_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "nn/circuits/heads.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"

namespace clearhead {

std::string head_table(const Trace& t, Rng& rng) {
  std::string text = "head   previous  current  first  duplicate  prefix   copying (sd of random)  own token first\n";
  if (t.w.layers.empty()) return text;
  const Null null = copying_null(t.w, t.w.layers[0].at(0).W_V.dim(1), 50, rng);
  for (size_t l = 0; l < t.w.layers.size(); ++l) {
    const auto previous = previous_token_scores(t.patterns[l]);
    const auto current = current_token_scores(t.patterns[l]), first = first_token_scores(t.patterns[l]);
    const auto duplicate = duplicate_token_scores(t.patterns[l], t.tokens);
    const auto prefix = prefix_matching_scores(t.patterns[l], t.tokens);
    for (size_t h = 0; h < t.w.layers[l].size(); ++h) {
      const Copying c = copying(token_ov(t.w, t.w.layers[l][h]));
      text += fmt::format("{:<6} {:8.3f} {:8.3f} {:6.3f} {:10.3f} {:7.3f}   {:7.3f} ({:+5.1f})         {:10.3f}\n",
                          to_string(HeadId{int64_t(l), int64_t(h)}), previous[h], current[h], first[h], duplicate[h],
                          prefix[h], c.eigenvalues, null.sigmas(c.eigenvalues), c.own_is_first);
    }
  }
  return text;
}

Specialists specialists_of(const Weights& w, Rng& rng) {
  const Null null = copying_null(w, w.layers.at(0).at(0).W_V.dim(1), 200, rng);
  Specialists s{0, 0, {}, 0};
  Sum all;
  for (const Head& h : w.layers[0]) {
    all.push_back(token_ov(w, h));
    const Copying c = copying(all.back());
    const bool positive = c.eigenvalues > 0.5 && null.sigmas(c.eigenvalues) > 4;
    s.positive += positive, s.own_first += positive && c.own_is_first >= 0.5;
    const Tensor pattern = causal_softmax(position_qk(w, h).dense());
    const Tensor one = pattern.reshape({1, 1, pattern.dim(0), pattern.dim(0)});
    s.position = std::max({s.position, previous_token_scores(one)[0], current_token_scores(one)[0]});
  }
  s.together = copying(joined(all));
  return s;
}

std::vector<double> raised_copying_scores(const Trace& t, int64_t layer) {
  const Tensor& x = t.probe[fmt::format("blocks.{}.resid_pre", layer)];
  const int64_t B = t.tokens.B, T = t.tokens.T;
  std::vector<double> scores;
  for (size_t h = 0; h < t.w.layers[size_t(layer)].size(); ++h) {
    const Tensor pattern = t.patterns[size_t(layer)].select(1, int64_t(h)).contiguous();
    const Tensor raised = matmul(moved(t.w.layers[size_t(layer)][h], pattern, x), t.w.W_U);
    double share = 0, n = 0;
    for (int64_t i = 0; i < B * T; ++i) {
      const Real *const row = raised.data() + i * t.w.V(), *const a = pattern.data() + i * T;
      double mean = 0, all = 0;
      for (int64_t v = 0; v < t.w.V(); ++v) mean += double(row[v]) / double(t.w.V());
      const auto above = [&](int64_t j) { return std::max(0.0, double(row[t.tokens(i / T, j)]) - mean); };
      std::vector<bool> counted(size_t(t.w.V()));
      for (int64_t j = 0; j < T; ++j)
        if (!counted[size_t(t.tokens(i / T, j))]) counted[size_t(t.tokens(i / T, j))] = true, all += above(j);
      if (all > 0) share += above(std::max_element(a, a + T) - a) / all, ++n;
    }
    scores.push_back(n > 0 ? 2 * share / n - 1 : -1);
  }
  return scores;
}

std::vector<Composed> compositions(const Weights& w, Rng& rng) {
  std::vector<Composed> all;
  if (w.layers.empty()) return all;
  const int64_t r = w.layers[0].at(0).W_V.dim(1);
  for (Through through : {Through::queries, Through::keys, Through::values}) {
    const Null null = composition_null(w.d_model(), r, r, through, 50, rng);
    for (size_t l1 = 0; l1 < w.layers.size(); ++l1)
      for (size_t l2 = l1 + 1; l2 < w.layers.size(); ++l2)
        for (size_t h1 = 0; h1 < w.layers[l1].size(); ++h1)
          for (size_t h2 = 0; h2 < w.layers[l2].size(); ++h2)
            all.push_back({{int64_t(l1), int64_t(h1)},
                           {int64_t(l2), int64_t(h2)},
                           through,
                           composition(through, w.layers[l1][h1], w.layers[l2][h2]),
                           null});
  }
  return all;
}

std::string composition_table(std::vector<Composed> all, size_t lines) {
  std::ranges::stable_sort(all, std::greater(), [](const Composed& c) { return c.null.sigmas(c.score); });
  std::string text = "composition    through  score  random        sd\n";
  for (size_t i = 0; i < std::min(lines, all.size()); ++i) {
    const Composed& c = all[i];
    text += fmt::format("{} > {}    {}        {:.3f}  {:.3f}   {:+7.1f}\n", to_string(c.first), to_string(c.second),
                        name(c.through), c.score, c.null.mean, c.null.sigmas(c.score));
  }
  return text;
}

double same_source(const Tensor& scores, const Tensor& others, const Tokens& x) {
  int64_t same = 0, n = 0;
  for (int64_t b = 0; b < x.B; ++b)
    for (int64_t i = 1; i < x.T; ++i) {
      int64_t one = 0, other = 0;
      bool repeated = false;
      for (int64_t j = 0; j <= i; ++j) {
        repeated |= j < i && x(b, j) == x(b, i);
        if (scores.at({b, i, j}) > scores.at({b, i, one})) one = j;
        if (others.at({b, i, j}) > others.at({b, i, other})) other = j;
      }
      const auto right = [&](int64_t j) { return j > 0 && x(b, j - 1) == x(b, i); };
      if (repeated) same += one == other || (right(one) && right(other)), ++n;
    }
  return double(same) / double(n);
}

double loss_of(const Tensor& stream, const Weights& w, const Tokens& targets) {
  const Tensor log_p = log_softmax(matmul(stream, w.W_U));
  double sum = 0, n = 0;
  for (size_t i = 0; i < targets.ids.size(); ++i)
    if (targets.ids[i] >= 0) sum -= double(log_p.data()[int64_t(i) * w.V() + targets.ids[i]]), n += 1;
  return sum / n;
}

std::vector<double> loss_by_order(const Trace& t, const Tokens& targets) {
  const std::vector<Tensor> streams = streams_by_order(t.w, t.patterns, t.tokens);
  std::vector<double> loss;
  Tensor sum(streams[0].shape());
  for (const Tensor& stream : streams) {
    add_into(sum, stream);
    loss.push_back(loss_of(sum, t.w, targets));
  }
  return loss;
}

double loss_with_single_heads(const Trace& t, const Tokens& targets, const std::function<bool(const HeadId&)>& use) {
  const std::vector<Tensor> streams = streams_by_order(t.w, t.patterns, t.tokens, use);
  return loss_of(streams.size() > 1 ? add(streams[0], streams[1]) : streams[0], t.w, targets);
}

Linearity linearity(const Trace& t) {
  const int64_t V = t.w.V(), d = t.w.d_model();
  Tensor mirrored = Tensor::empty({V, d});  // token i as token V - 1 - i: y
  for (int64_t i = 0; i < V; ++i)
    for (int64_t k = 0; k < d; ++k) mirrored.mut()[size_t(i * d + k)] = t.w.W_E.at({V - 1 - i, k});
  Weights y = t.w, mixed = t.w;
  y.W_E = mirrored;
  mixed.W_E = add(scale(t.w.W_E.contiguous(), Real(0.7)), scale(mirrored, Real(0.6)));
  const auto logits = [&](const Weights& w) {
    Tensor sum(t.logits.shape());
    for (const Tensor& stream : streams_by_order(w, t.patterns, t.tokens)) add_into(sum, matmul(stream, w.W_U));
    return sum;
  };
  const Tensor expected = add(scale(logits(t.w), Real(0.7)), scale(logits(y), Real(0.6)));
  return {relative_difference(logits(mixed), expected),
          relative_difference(trace(model_of(mixed), t.tokens).logits, expected)};
}

std::vector<Term> terms_of_prediction(const Trace& t, int64_t b, int64_t position, int32_t token, int64_t max_order) {
  std::vector<Term> terms;
  for_each_path(t.w, t.patterns, t.tokens, max_order, [&](const Path& path, const Tensor& stream) {
    const Tensor row = stream.narrow(0, b, 1).narrow(1, position, 1).contiguous().reshape({1, t.w.d_model()});
    const Tensor logits = matmul(row, t.w.W_U);
    terms.push_back({path, double(logits.at({0, token})) - sum_all(logits) / double(t.w.V())});
  });
  std::ranges::stable_sort(terms, std::greater(), &Term::raises);
  return terms;
}

std::string importance_table(const Trace& t, const Tokens& targets) {
  const auto loss = [&](const std::function<bool(const HeadId&)>& use) {
    return loss_with_single_heads(t, targets, use);
  };
  const double none = loss([](const HeadId&) { return false; }), all = loss(nullptr);
  std::string text = "head   alone  marginal   (nats of its direct effect)\n";
  for (int64_t l = 0; l < int64_t(t.w.layers.size()); ++l)
    for (int64_t h = 0; h < int64_t(t.w.layers[size_t(l)].size()); ++h) {
      const HeadId id{l, h};
      text += fmt::format("{:<5} {:6.3f}    {:6.3f}\n", to_string(id),
                          none - loss([&](const HeadId& x) { return x == id; }),
                          loss([&](const HeadId& x) { return x != id; }) - all);
    }
  return text;
}

std::string story(const std::vector<Term>& terms) {
  double total = 0;
  std::string text;
  for (size_t i = 0; i < terms.size(); ++i) {
    total += terms[i].raises;
    if (i < 5 || i + 3 > terms.size())
      text += fmt::format("  {:+8.3f}  {}\n", terms[i].raises, to_string(terms[i].path));
    if (i == 5 && terms.size() > 8) text += "       ...\n";
  }
  return text + fmt::format("  {:+8.3f}  together, as the model says", total);
}

double resting(const Tensor& pattern, const Tokens& x, bool repeated) {
  double sum = 0, n = 0;
  for (int64_t b = 0; b < x.B; ++b)
    for (int64_t i = 1; i < x.T; ++i) {
      bool before = false;
      for (int64_t j = 0; j < i; ++j) before |= x(b, j) == x(b, i);
      if (before == repeated) sum += double(pattern.at({b, i, 0})), ++n;
    }
  return sum / n;
}

}  // namespace clearhead
