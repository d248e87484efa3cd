// Markov chains to be learned in context: every sequence comes from a chain of its own.
//
//     rows of the transition matrix ~ Dirichlet(1, .., 1), the first state uniform
//
// With n_j the number of j among the t states so far, n_ij that of i followed by j, n_i that of i followed by anything:
//
//     uniform    1 / k
//     unigram    (n_j + 1) / (t + k)
//     bigram     (n_ij + 1) / (n_i + k), i the present state: for this prior the exact Bayes predictor, so nothing that
//                sees the same states has a lower expected loss
//
// Edelman et al. 2024 (arXiv 2402.11004).
#pragma once

#include <array>

#include "nn/transformer.h"
#include "tensor/random.h"

namespace clearhead {

struct InContextMarkov {
  int64_t k = 3, T = 100;          // states; sequences of T + 1
  bool doubly_stochastic = false;  // columns sum to 1 too: all states are equally frequent, and unigrams say nothing

  Tokens sample(int64_t B, Rng& rng) const;  // [B, T + 1]
};

enum Strategy { uniform, unigram, bigram };
inline constexpr std::array strategy_names{"uniform", "unigram", "bigram"};
// p(next state) after every position, [B, T, k].
Tensor predictions_of(Strategy strategy, const Tokens& inputs, int64_t k);

// Mean over positions of KL(p || q), both [B, T, k], in nats.
double kl(const Tensor& p, const Tensor& q);

}  // namespace clearhead
