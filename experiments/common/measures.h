// What is measured of a model: losses by position, accuracies, head scores. All without gradients.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/common/copied_segment.h"
#include "experiments/common/tasks.h"
#include "nn/transformer.h"

namespace clearhead {

// Argmax and loss at every position of a batch [B, T], computed 16 sequences at a time.
struct Predictions {
  int64_t B, T;
  std::vector<int32_t> best;  // the token with the highest logit
  std::vector<double> loss;   // -ln p(target), in nats; 0 where the target is -1

  double mean_loss_at(int64_t t) const;  // over the batch, at one position
};
Predictions predict(const Transformer& model, const Batch& batch, const Probe& probe = {});
// With a probe of their own for these sequences, which are those of one forward pass.
Predictions predict(const Transformer& model, const Batch& batch, const std::function<Probe(const Tokens&)>& probe);

// The share of the positions with an earlier occurrence of the current token where the model's best guess is right.
double induction_accuracy(const Predictions& p, const Batch& batch);
// The same for the best guess that knows which tokens occurred, and how often, but not their order: the best of "any
// token seen", "the most frequent" and "the least frequent", ties broken at random. What copying without induction can
// reach.
double order_blind_accuracy(const Batch& batch);

// The share of these positions where the best guess is what follows at their source (tasks.h).
double copied_accuracy(const Predictions& p, const Tokens& targets, const std::vector<CopiedPosition>& where);

// Mean of `loss` over the positions that have (`repeated`) or have not an earlier occurrence of the current token.
double mean_loss_where(const std::vector<double>& loss, const Tokens& inputs, bool repeated);
// The share of swapped sources (tasks.h) that the model's best guess follows.
double follow_rate(const Transformer& model, const Swapped& swapped, const Probe& probe = {});

double mean_loss(const Predictions& p, const Batch& batch);  // over the positions that have a target

// In-context-learning score: mean loss late in the sequence minus mean loss early; negative if the context helps. The
// positions are floor(.98 T) and floor(.1 T), as 500 and 50 are of 512 in Olsson et al. 2022.
double icl_score(const Predictions& p);
// At floor(late T) and floor(early T); each the mean over the positions up to `around` T away.
double icl_score(const Predictions& p, double late, double early, double around = 0);

// Scores of every head, [layer][head] (nn/circuits/heads.h), on these tokens.
struct HeadScores {
  std::vector<std::vector<double>> previous, duplicate, prefix;
};
std::string to_string(const HeadScores& scores);  // one line per head
HeadScores head_scores(const Transformer& model, const Tokens& tokens);
// An attention pattern [T, T] with a name for every token: a line per destination, a column per source; "." is the future.
std::string pattern_table(const Tensor& pattern, const std::vector<std::string>& names);
double best(const std::vector<double>& heads);  // 0 if there are none
double best(const std::vector<std::vector<double>>& layers);

}  // namespace clearhead
