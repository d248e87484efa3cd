#include "experiments/common/dictionaries.h"

#include <algorithm>

#include "tensor/kernels.h"

namespace clearhead {
namespace {

// n pairs of 2 n different letters; all held out, or none.
Pairs dictionary(int64_t n, bool unseen, Rng& rng) {
  Pairs pairs;
  std::vector<bool> used(letters);
  while (int64_t(pairs.size()) < n) {
    const Pair p{int32_t(rng.below(letters)), int32_t(rng.below(letters))};
    if (p.key == p.value || used[size_t(p.key)] || used[size_t(p.value)] || held_out(p) != unseen) continue;
    used[size_t(p.key)] = used[size_t(p.value)] = true;
    pairs.push_back(p);
  }
  return pairs;
}

}  // namespace

bool held_out(const Pair& p) { return (7 * p.key + 11 * p.value) % 10 == 0; }

Batch dictionary_lines(int64_t B, double with_arrows, Rng& rng) {
  constexpr int64_t T = 64;
  Batch batch{Tokens(B, T), Tokens(B, T)};
  std::ranges::fill(batch.targets.ids, -1);
  for (int64_t b = 0; b < B; ++b) {
    const Pairs pairs = dictionary(2 + rng.below(7), false, rng);
    const int64_t per_line = rng.uniform() < with_arrows ? 3 : 2;
    std::vector<bool> known(pairs.size());
    for (int64_t t = 0; t < T; t += per_line) {
      const auto i = size_t(rng.below(int64_t(pairs.size())));
      const int32_t line[] = {pairs[i].key, per_line == 3 ? arrow : pairs[i].value, pairs[i].value};
      for (int64_t j = 0; j < per_line && t + j < T; ++j) batch.inputs(b, t + j) = line[j];
      const int64_t before_value = t + per_line - 2;
      if (known[i] && before_value < T) batch.targets(b, before_value) = pairs[i].value;
      known[i] = true;
    }
  }
  return batch;
}

Prompts prompts(int64_t n, Ask ask, uint64_t seed, int64_t shots, bool conflicting) {
  Rng rng(seed, Stream::eval, uint64_t(n * 10 + int64_t(ask)));
  const int64_t B = 512, per_line = ask == Ask::distractors ? 6 : 3;
  Prompts p{Tokens(B, per_line * (n + shots - 1 + conflicting) + 2), {}, {}, {}, {}};
  for (int64_t b = 0; b < B; ++b) {
    Pairs pairs = dictionary(n + 1, ask == Ask::unseen_pairs, rng);  // the last one is not shown
    for (int64_t i = 0; i < n; ++i) {
      if (ask == Ask::untrained_values) pairs[size_t(i)].value = letters + int32_t(i % untrained_letters);
      if (ask == Ask::untrained_keys) pairs[size_t(i)].key = letters + int32_t(i % untrained_letters);
    }
    const Pair reserve = pairs.back(), asked = ask == Ask::unseen_key ? reserve : pairs[size_t(rng.below(n))];
    pairs.pop_back();
    p.pairs.push_back(pairs), p.answers.push_back(asked.value), p.rivals.push_back(reserve.value);
    Pairs lines = pairs;
    const auto more = [&](const Pair& line, size_t from) {  // somewhere, but not before `from`
      const auto at = from + size_t(rng.below(int64_t(lines.size() - from) + 1));
      lines.insert(lines.begin() + long(at), line);
    };
    for (int64_t i = 1; i < shots; ++i) more(asked, 0);
    const auto last = std::ranges::find_if(lines.rbegin(), lines.rend(), [&](auto& l) { return l.key == asked.key; });
    if (conflicting) more({asked.key, reserve.value}, size_t(lines.rend() - last));
    std::vector<int32_t> text;
    p.shown.push_back(-1);
    for (const Pair& line : lines) {
      if (line.key == asked.key && line.value == asked.value) p.shown.back() = int64_t(text.size()) + 2;
      text.insert(text.end(), {line.key, arrow, line.value});
      for (int64_t j = 0; ask == Ask::distractors && j < 3; ++j) text.push_back(int32_t(rng.below(letters)));
    }
    text.insert(text.end(), {asked.key, arrow});
    std::ranges::copy(text, p.tokens.ids.begin() + b * p.tokens.T);
  }
  return p;
}

Answers ask(const Transformer& model, const Prompts& q) {
  const NoGrad no_grad;
  const Tensor p = softmax(model.logits(q.tokens).value().select(1, q.tokens.T - 1));  // [B, V]
  Answers a;
  for (int64_t b = 0; b < q.tokens.B; ++b) {
    const Tensor row = p.select(0, b);
    const double n = double(q.tokens.B), answer = double(row.at({q.answers[size_t(b)]}));
    a.right += (answer == double(*std::ranges::max_element(row.flat()))) / n, a.p += answer / n;
    for (const Pair& pair : q.pairs[size_t(b)]) a.p_values += double(row.at({pair.value})) / n;
  }
  return a;
}

Looks looks(const Transformer& model, const Prompts& q) {
  const NoGrad no_grad;
  Probe probe;
  probe.capture("blocks.1.attn.pattern");
  model.stream(q.tokens, probe);
  const Tensor& pattern = probe["blocks.1.attn.pattern"];
  Looks best_one;
  for (int64_t h = 0; h < model.config.n_heads; ++h) {
    Looks l;
    for (int64_t b = 0; b < q.tokens.B; ++b)
      for (int64_t t = 2; t < q.tokens.T; t += 3) {
        const double a = double(pattern.at({b, h, q.tokens.T - 1, t})) / double(q.tokens.B);
        l.all += a, l.right += t == q.shown[size_t(b)] ? a : 0;
      }
    if (l.right > best_one.right) best_one = l;
  }
  return best_one;
}

}  // namespace clearhead
