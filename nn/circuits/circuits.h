// Circuits: what a head does, as matrices between things that one can read.
//
//     QK [d_model, d_model]   where a head looks:  score(i, j) = x_i QK x_j^T       QK = W_Q W_K^T / sqrt(d_head)
//     OV [d_model, d_model]   what it moves:       what source j adds = x_j OV      OV = W_V W_O
//
// Between W_E and W_U both are tables over tokens: W_E QK W_E^T [V destination, V source] and W_E OV W_U [V source, V
// out]. With the direct path W_E W_U, a table of bigrams, that is all of a one-layer model (Elhage et al. 2021).
//
// We multiply from the right (row vectors); the papers multiply from the left. Theirs transposed is ours: their
// W_OV^2 W_OV^1 (first 1, then 2) is OV1 * OV2 here.
//
// Pure functions over plain tensors: no gradients, no training, and hand-written weights are as good as trained ones.
//
//     Weights w = weights_of(model);                       // or fill one in
//     const Factored qk = token_qk(w, w.layers[1][0]);     // never a V x V matrix
//     double c = copying_score(token_ov(w, w.layers[1][0]));
#pragma once

#include <optional>

#include "nn/circuits/factored.h"
#include "nn/config.h"
#include "tensor/random.h"

namespace clearhead::inline CLEARHEAD_REAL {

struct Transformer;

struct Head {
  Tensor W_Q, W_K, W_V;  // [d_model, d_head]
  Tensor W_O;            // [d_head, d_model]
};

// An attention-only model without biases.
struct Weights {
  Tensor W_E;                   // [V, d_model]
  std::optional<Tensor> W_pos;  // [n_ctx, d_model]
  std::vector<std::vector<Head>> layers;
  Tensor W_U;  // [d_model, V]
  // With shortformer positions, W_pos is added to what queries and keys are made of only; otherwise to the stream.
  Positions positions = Positions::shortformer;

  int64_t V() const { return W_E.dim(0); }
  int64_t d_model() const { return W_E.dim(1); }
};
// Error, naming the tensor, if shapes do not fit or a number is not finite.
void check(const Weights& w);
// Views of a model's weights. Error if it has an MLP, biases or LayerNorm: these must be folded or expanded first.
Weights weights_of(const Transformer& model);
// A model with these weights, to run them.
Transformer model_of(const Weights& w);

Factored qk(const Head& h);                             // [d_model destination, d_model source]
Factored ov(const Head& h);                             // [d_model, d_model]
Factored token_qk(const Weights& w, const Head& h);     // [V destination, V source]
Factored token_ov(const Weights& w, const Head& h);     // [V source, V out]
Factored position_qk(const Weights& w, const Head& h);  // [n_ctx destination, n_ctx source]
Factored direct_path(const Weights& w);                 // [V token, V next]: the bigram table

// ---- Copying: does what is attended to become more likely?

// Positivity of the eigenvalues, sum Re(l) / sum |l|, from -1 to 1: 1 if OV, as a map of tokens to tokens, raises
// mixtures of tokens that are attended to. No proof of copying (a positive trace can come from a few tokens): see
// Copying. Source: Elhage et al. 2021, "Copying / primitive in-context learning".
double copying_score(const Factored& square);
double copying_score(const Sum& square);

struct Null {
  double mean, sd;
  double sigmas(double x) const { return (x - mean) / sd; }
};
// Copying scores of heads with random weights of this head's shape between the model's own W_E and W_U: with embeddings
// that are tied, or just alike, random heads need not be at 0. sd is about 1.5 / d_head.
Null copying_null(const Weights& w, int64_t d_head, int samples, Rng& rng);

struct Copying {
  double eigenvalues;   // copying_score
  double own_is_first;  // share of source tokens that raise themselves above all others
  double own_z;         // mean over tokens of (own logit - mean logit) / standard deviation of the logits
};
// Goes through the table by blocks of rows: O(V^2 d_head) time, 256 V numbers of memory.
Copying copying(const Factored& token_ov);

// ---- Composition: does a head read what an earlier head wrote?

enum class Through { queries, keys, values };
const char* name(Through t);  // "Q", "K", "V"
// What head 2 sees of head 1's writing, in the place that is named:  OV1 QK2,  QK2 OV1^T,  OV1 OV2.
Factored composed(Through through, const Head& first, const Head& second);
// |composed| / (|OV1| |QK2| or |OV2|), Frobenius norms: 0 for orthogonal subspaces. Random matrices of low rank give
// about 1 / sqrt(d_model), which means nothing; subtract the null. Source: Elhage et al. 2021, "Two-layer
// attention-only".
double composition(Through through, const Head& first, const Head& second);
Null composition_null(int64_t d_model, int64_t d_head_1, int64_t d_head_2, Through through, int samples, Rng& rng);

// The QK circuit of a head of layer 1 over tokens, where keys come through the heads of layer 0, weighted by how much
// each attends to the previous token: does it look for a token that is like the one before the source? [V, V], a sum.
// Source: Olsson et al. 2022, "QK circuit eigenvalues".
Sum matching(const Weights& w, const std::vector<double>& previous_token_scores, const Head& second);
Null matching_null(const Weights& w, const std::vector<double>& previous_token_scores, int64_t d_head, int samples,
                   Rng& rng);  // of copying_score(matching(..)), for second heads with random weights

}  // namespace clearhead::inline CLEARHEAD_REAL
