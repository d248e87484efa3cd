#include "experiments/common/repeated_text.h"

#include <algorithm>
#include <numeric>

#include "experiments/common/bigram_counts.h"
#include "tensor/kernels.h"

namespace clearhead {
namespace {

Tokens shuffled_but_last(Tokens x) {
  Rng rng(0, Stream::eval);
  for (int64_t first = 0; first + 2 * TextData::passage <= int64_t(x.ids.size()); first += TextData::passage) {
    if (first % x.T + 2 * TextData::passage > x.T) continue;  // the last of a row
    const Tokens whole = x;
    const auto order = rng.permutation(int32_t(TextData::passage));
    for (int64_t i = 0; i < TextData::passage; ++i)
      x.ids[size_t(first + i)] = whole.ids[size_t(first + order[size_t(i)])];
  }
  return x;
}

TextData::HeldOut held_out(const Corpus& c) {
  const auto batch = [&](const Tokens& rows) { return next_token_batch(begun_with(rows, c.tokenizer.bos())); };
  const Tokens passages = repeated(consecutive_windows(c.held_out, TextData::passage, 32), TextData::copies);
  return {batch(passages), batch(shuffled_but_last(passages)), batch(consecutive_windows(c.held_out, TextData::T, 64))};
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

TextData::TextData(Run& run, int vocab_size) {
  BothTexts both = read_both_texts(run, vocab_size);
  code = std::move(both.code), prose = std::move(both.prose);
  held_out_code = held_out(code), held_out_prose = held_out(prose);
  const std::vector<int32_t> ids = middling(code, prose);
  Rng rng(run.seed(), Stream::eval);
  random = repeated_random(16, passage, copies, int64_t(ids.size()), rng);
  for (int32_t& id : random.ids) id = ids[size_t(id)];
  random = next_token_batch(begun_with(random, tokenizer().bos())).inputs;
}

Copies copies_of(const Predictions& p) {
  Copies c;
  double n[2] = {0, 0};
  for (int64_t t = 0; t < p.T; ++t)
    if (t % TextData::passage != 0) {
      const bool later = t >= TextData::passage;
      (later ? c.later : c.first) += p.mean_loss_at(t), ++n[later];
    }
  c.first /= n[0], c.later /= n[1];
  return c;
}

double last_copy_of(const Predictions& p) {
  double sum = 0, n = 0;
  for (int64_t t = (TextData::copies - 1) * TextData::passage + 1; t < p.T; ++t) sum += p.mean_loss_at(t), ++n;
  return sum / n;
}

nlohmann::json text_snapshot(const Transformer& m, const TextData& d) {
  const HeadScores random = head_scores(m, d.random);
  nlohmann::json j{{"random_prefix", best(random.prefix)}, {"previous", best(random.previous.at(0))}};
  const auto look = [&](const std::string& name, const TextData::HeldOut& text) {
    const Predictions p = predict(m, text.passages);
    const Copies c = copies_of(p);
    const Predictions w = predict(m, text.windows);
    j[name + "_prefix"] = best(head_scores(m, text.passages.inputs).prefix);
    j[name + "_first"] = c.first, j[name + "_later"] = c.later;
    j[name + "_order"] = last_copy_of(predict(m, text.shuffled)) - last_copy_of(p);
    j[name + "_loss"] = mean_loss(w), j[name + "_icl"] = icl_score(w, .9, .1, .05);
  };
  look("code", d.held_out_code), look("prose", d.held_out_prose);
  return j;
}

double pay_off(const TextData& d, double code) {
  const int64_t V = d.tokenizer().vocab_size();
  constexpr double n = 6e6;  // tokens to count
  std::vector<int32_t> text;
  const auto take = [&](const Corpus& c, double share) {
    text.insert(text.end(), c.train.begin(), c.train.begin() + std::min(int64_t(n * share), int64_t(c.train.size())));
  };
  take(d.code, code), take(d.prose, 1 - code);
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
  return code * pays(d.held_out_code.windows) + (1 - code) * pays(d.held_out_prose.windows);
}

std::string continued(const Transformer& m, const TextData& d, int64_t row, const Probe& probe) {
  const NoGrad no_grad;
  const Tokens& x = d.held_out_code.passages.inputs;
  std::vector<int32_t> ids(x.ids.begin() + row * x.T, x.ids.begin() + row * x.T + d.passage + 13);
  const size_t asked = ids.size();
  while (ids.size() < asked + 36) {
    Tokens now(1, int64_t(ids.size()));
    now.ids = ids;
    Probe p = probe;
    const Tensor logits = m.logits(now, p).value();
    const Real* const last = logits.data() + (now.T - 1) * m.config.d_vocab;
    ids.push_back(int32_t(std::max_element(last, last + m.config.d_vocab) - last));
  }
  return d.tokenizer().decode(std::span(ids).subspan(asked));
}

}  // namespace clearhead
