// What a model's circuits look like, in tables: shared by the programs that read models.
#pragma once

#include <functional>
#include <string>

#include "nn/circuits/trace.h"

namespace clearhead {

// One line per head: what it attends to on these tokens (nn/circuits/heads.h), and how much it copies, also in standard
// deviations of heads with random weights.
std::string head_table(const Trace& t, Rng& rng);

// What the heads of a one-layer model specialize in, by its weights.
struct Specialists {
  int64_t positive;   // heads whose OV has an eigenvalue score above .5, and 4 standard deviations of random heads
  int64_t own_first;  // of these, where half of the tokens raise themselves above all others
  Copying together;   // of all heads, added up
  double position;    // attention to the present or the previous token by position alone: that of the best head
};
Specialists specialists_of(const Weights& w, Rng& rng);

// Copying by its effect (Olsson et al. 2022): what a head adds to the logits, above the mean of all tokens and where
// positive: how much of that, of all that the tokens in its sequence get, goes to the token it attends to most? From -1
// (nothing) to 1 (all), for each head of a layer. (The paper leaves open how it scales; this is twice the share minus 1.)
std::vector<double> raised_copying_scores(const Trace& t, int64_t layer);

// The strongest compositions of two heads, by their distance from the null: score, null, standard deviations.
struct Composed {
  HeadId first, second;
  Through through;
  double score;
  Null null;
};
std::vector<Composed> compositions(const Weights& w, Rng& rng);  // of every pair of heads in different layers
std::string composition_table(std::vector<Composed> all, size_t lines);

// The share of repeated tokens where two score tensors [B, T, T] have their largest entries at the same source, or both
// at sources that followed the same token as the destination's (a segment may have come more than once before).
double same_source(const Tensor& scores, const Tensor& others, const Tokens& tokens);

// Mean cross-entropy in nats of logits = stream W_U at the targets (-1 is left out).
double loss_of(const Tensor& stream, const Weights& w, const Tokens& targets);

// Term importance (Elhage et al. 2021): all patterns frozen on this batch; loss with paths of up to 0, 1, .. n heads.
// The last is the model's loss, the first that of the direct path alone.
std::vector<double> loss_by_order(const Trace& t, const Tokens& targets);
// The direct effect of the heads `use` selects, beside the embedding, without any virtual head.
double loss_with_single_heads(const Trace& t, const Tokens& targets, const std::function<bool(const HeadId&)>& use);

// One line per head: its direct effect alone (beside the embedding), and what is lost without it (of all single heads).
std::string importance_table(const Trace& t, const Tokens& targets);

// With the patterns of this trace frozen, is the model linear in its tokens? The relative difference between the logits of
// .7 x + .6 y and .7 times those of x plus .6 times those of y, where y are other tokens; `free`: with patterns that
// follow the mixture instead. (For models without positions in the stream, which would be counted 1.3 times.)
struct Linearity {
  double frozen, free;
};
Linearity linearity(const Trace& t);

// How each path raised the logit of `token` above the mean of all logits, at position t of sequence b: largest first.
struct Term {
  Path path;
  double raises;
};
std::vector<Term> terms_of_prediction(const Trace& t, int64_t b, int64_t position, int32_t token, int64_t max_order);
std::string story(const std::vector<Term>& terms);  // the largest, the smallest, and their sum

// Mean attention of one head [B, T, T] to position 0, where the present token occurred before (`repeated`) or not.
double resting(const Tensor& pattern, const Tokens& tokens, bool repeated);

}  // namespace clearhead
