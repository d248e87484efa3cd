// Synthetic languages, deterministic from their Rng: batch n of a run is a function of (seed, stream, n).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "nn/transformer.h"
#include "tensor/random.h"

namespace clearhead {

// A segment of distinct tokens that repeats to the end of the sequence, after a prefix of other tokens:
//
//     x x x | A B C D E F G H | A B C D E F G H | A B C ..
//
// Segment length and prefix are random, so "what stood L positions ago" predicts nothing: only the content tells where
// to look. With a fixed length and no prefix (`fixed`), one attention layer solves the task by position alone, and a
// two-layer model that is trained on it proves nothing about induction.
struct RepeatedSegment {
  int64_t V = 64, T = 64;  // sequences of T + 1 tokens, so that there are T to predict
  int64_t shortest = 8, longest = 32;
  bool fixed = false;  // control: segment length (shortest + longest) / 2, no prefix

  // [B, T + 1]. The prefix is shorter than the segment.
  Tokens sample(int64_t B, Rng& rng) const;
  // The loss in nats of the best possible predictor at every position [B, T]: it knows this recipe, but not its dice.
  std::vector<double> bayes_loss(const Tokens& sequences) const;
};

nlohmann::json to_json(const RepeatedSegment& task);

// Where induction can predict: copies[b * T + t] = the most recent earlier position j + 1 whose predecessor equals
// token t, or -1 where token t is new. Copying what stands there is the induction rule.
std::vector<int64_t> induction_sources(const Tokens& inputs);

// The swap test: at one position of each sequence whose token occurred exactly once before, what followed it there is
// replaced by a token that occurs nowhere. A model that copies by induction now predicts that token. (With several
// earlier occurrences the others would still speak for the old one.)
struct Swapped {
  Tokens tokens;
  std::vector<std::pair<size_t, int32_t>> expected;  // flat position, and the token to expect after it
};
Swapped swap_sources(Tokens tokens, int64_t V, Rng& rng);

// [a] [b] .. [a] [c]: after bos thirty different tokens, then one of them again, and then one that had not followed it.
// Only that last token has a target. It occurred before, so a model that knows what occurred, but not in what order, does
// not mind.
Batch other_successors(int64_t B, int64_t V, int32_t bos, Rng& rng);

// The same with `bos` in place of the first token of every sequence: heads that find nothing can look there.
Tokens begun_with(Tokens tokens, int32_t bos);
// Every sequence several times over: [B, times * T].
Tokens repeated(const Tokens& tokens, int64_t times);

// Uniformly random tokens, repeated `repeats` times with period L (no BOS): [B, L * repeats].
Tokens repeated_random(int64_t B, int64_t L, int64_t repeats, int64_t V, Rng& rng);

// Planted skip-trigrams, [source] ... [destination] -> [out], among noise:
//
//     n n n S n n n n n n n D O n n n
//
// Each pair of a source and a destination has an out of its own. The gap is random, so position does not tell where the
// source is; the destination alone leaves as many outs as there are sources. Noise tokens prefer one successor each.
struct SkipTrigramLanguage {
  int64_t sources = 6, destinations = 6, noise = 48, T = 40;  // sequences of T + 1 tokens
  int64_t shortest_gap = 5, longest_gap = 30;

  int64_t V() const { return sources + destinations + sources * destinations + noise; }
  int32_t source(int64_t s) const { return int32_t(s); }
  int32_t destination(int64_t d) const { return int32_t(sources + d); }
  int32_t out(int64_t s, int64_t d) const { return int32_t(sources + destinations + s * destinations + d); }
  Tokens sample(int64_t B, Rng& rng) const;  // [B, T + 1]
};

// A language for which heads should copy, and one should look one back: every next token is, by a coin of bias `burst`,
// either one of the few tokens that this sequence is about, or follows (by a fixed permutation) from the token before the
// present one.
struct BurstyLanguage {
  int64_t V = 64, T = 64, topic = 5;
  double burst = 0.6;
  std::vector<int32_t> follows;  // the permutation

  explicit BurstyLanguage(Rng rng);
  Tokens sample(int64_t B, Rng& rng) const;  // [B, T + 1]
};

// [k, k], row by row: each a flat Dirichlet sample.
std::vector<double> dirichlet_rows(int64_t k, Rng& rng);
int32_t draw(const double* p, int64_t k, Rng& rng);  // 0 .. k-1, with these probabilities

// A Markov chain with rows drawn from a flat Dirichlet distribution.
struct MarkovChain {
  int64_t V;
  std::vector<double> P;   // [V, V]: P[i * V + j] = p(next = j | i)
  std::vector<double> pi;  // its stationary distribution

  MarkovChain(int64_t V, Rng rng);
  Tokens sample(int64_t B, int64_t length, Rng& rng) const;  // starts from pi
  double entropy() const;          // of the next token given the last one, in nats: no predictor has a lower loss
  double unigram_entropy() const;  // of pi
};

}  // namespace clearhead
