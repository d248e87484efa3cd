#include "experiments/common/repeated_text.h"

#include <algorithm>
#include <numeric>

#include "experiments/common/bigram_counts.h"
#include "tensor/kernels.h"

namespace clearhead {
namespace {

// The same passages repeated, all copies except the last in a random order of their tokens.
Tokens shuffled_but_last(const Tokens& passages) {
  Rng rng(0, Stream::eval);
  Tokens x = repeated(passages, TextData::copies);
  for (int64_t b = 0; b < x.B; ++b)
    for (int64_t start = 0; start + passages.T < x.T; start += passages.T) {
      const std::vector<int32_t> order = rng.permutation(int32_t(passages.T));
      for (int64_t i = 0; i < passages.T; ++i) x(b, start + i) = passages(b, order[size_t(i)]);
    }
  return x;
}

// The ids of both texts by frequency, without the first and last eighth.
std::vector<int32_t> middling(const Corpus& a, const Corpus& b) {
  const int64_t V = a.tokenizer.vocab_size();
  const auto p = frequencies(a.train, V), q = frequencies(b.train, V);
  std::vector<int32_t> ids(static_cast<size_t>(V));
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::sort(ids, {}, [&](int32_t i) { return p[size_t(i)] + q[size_t(i)]; });
  return {ids.begin() + V / 8, ids.end() - V / 8};
}

}  // namespace

TextData::Text::Text(Corpus c) : corpus(std::move(c)) {
  const auto batch = [&](const Tokens& rows) { return next_token_batch(begun_with(rows, corpus.tokenizer.bos())); };
  const Tokens once = consecutive_windows(corpus.held_out, passage, 32);
  passages = batch(repeated(once, copies)), shuffled = batch(shuffled_but_last(once));
  windows = batch(consecutive_windows(corpus.held_out, T, 64));
}

TextData::TextData(Run& run, int vocab_size) : TextData(run, read_code_and_prose(run, vocab_size)) {}

TextData::TextData(Run& run, std::pair<Corpus, Corpus> both)
    : code(std::move(both.first)), prose(std::move(both.second)) {
  const std::vector<int32_t> ids = middling(code.corpus, prose.corpus);
  Rng rng(run.seed(), Stream::eval);
  random = repeated_random(16, passage, copies, int64_t(ids.size()), rng);
  for (int32_t& id : random.ids) id = ids[size_t(id)];
  random = next_token_batch(begun_with(random, tokenizer().bos())).inputs;
}

Copies copies_of(const Predictions& p) {
  Copies c;
  double n[2] = {0, 0};
  for (int64_t next = 1; next <= p.T; ++next)  // the token to predict
    if (next % TextData::passage != 0) {
      const bool later = next > TextData::passage;
      (later ? c.later : c.first) += p.mean_loss_at(next - 1), ++n[later];
    }
  c.first /= n[0], c.later /= n[1];
  return c;
}

double gain_by_order(const Transformer& m, const TextData::Text& text) {
  const Predictions ordered = predict(m, text.passages), shuffled = predict(m, text.shuffled);
  double sum = 0, n = 0;
  for (int64_t next = (TextData::copies - 1) * TextData::passage + 1; next <= ordered.T; ++next)
    sum += shuffled.mean_loss_at(next - 1) - ordered.mean_loss_at(next - 1), ++n;
  return sum / n;
}

nlohmann::json text_snapshot(const Transformer& m, const TextData& d) {
  const HeadScores random = head_scores(m, d.random);
  nlohmann::json j{{"random_prefix", best(random.prefix)}, {"previous", best(random.previous.at(0))}};
  const auto look = [&](const std::string& name, const TextData::Text& text) {
    const Copies c = copies_of(predict(m, text.passages));
    const Predictions w = predict(m, text.windows);
    j[name + "_prefix"] = best(head_scores(m, text.passages.inputs).prefix);
    j[name + "_first"] = c.first, j[name + "_later"] = c.later;
    j[name + "_loss"] = mean_loss(w, text.windows), j[name + "_icl"] = icl_score(w, .9, .1, .05);
  };
  look("code", d.code), look("prose", d.prose);
  return j;
}

double pay_off(const TextData& d, double code) {
  const int64_t V = d.tokenizer().vocab_size();
  constexpr double n = 6e6;  // tokens to count
  std::vector<int32_t> text;
  const auto take = [&](const Corpus& c, double share) {
    text.insert(text.end(), c.train.begin(), c.train.begin() + std::min(int64_t(n * share), int64_t(c.train.size())));
  };
  take(d.code.corpus, code), take(d.prose.corpus, 1 - code);
  const BigramCounts counts(text, V);
  std::vector<int32_t> successor(static_cast<size_t>(V));
  for (int64_t i = 0; i < V; ++i)
    for (int64_t j = 1; j < V; ++j)
      if (counts.count(i, j) > counts.count(i, successor[size_t(i)])) successor[size_t(i)] = int32_t(j);
  const auto pays = [&](const Batch& b) {
    const auto source = induction_sources(b.inputs);
    double right = 0;
    for (size_t i = 0; i < source.size(); ++i)
      if (source[i] >= 0) {
        const int32_t next = b.targets.ids[i], copied = b.inputs(int64_t(i) / b.inputs.T, source[i]);
        right += copied == next && successor[size_t(b.inputs.ids[i])] != next;
      }
    return right / double(source.size());
  };
  return code * pays(d.code.windows) + (1 - code) * pays(d.prose.windows);
}

std::vector<int32_t> continued(const Transformer& m, std::vector<int32_t> ids, int64_t n, const Probe& probe) {
  const NoGrad no_grad;
  const size_t asked = ids.size();
  while (ids.size() < asked + size_t(n)) {
    Tokens now(1, int64_t(ids.size()));
    now.ids = ids;
    Probe p = probe;
    const Tensor logits = m.logits(now, p).value();
    const Real* const last = logits.data() + (now.T - 1) * m.config.d_vocab;
    ids.push_back(int32_t(std::max_element(last, last + m.config.d_vocab) - last));
  }
  return {ids.begin() + long(asked), ids.end()};
}

}  // namespace clearhead
