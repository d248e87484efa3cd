// Ablation: heads are knocked out while the model runs, and what it then predicts is compared. All through Probe
// (nn/probe.h): the model stays as it is.
//
//     zero      the head's z (its mixed values) is 0, and everything after it follows
//     mean      z is its mean over all sequences and positions of the batch: the head says what it says on average
//     frozen    zero, but all patterns stay as they were with the head: only its output is missing, not where later
//               heads look because of it ("pattern-preserving", Olsson et al. 2022)
#pragma once

#include "experiments/common/measures.h"
#include "nn/circuits/trace.h"

namespace clearhead {

// Heads by what they do on these tokens. Induction: prefix matching of at least .15; previous-token: of at least
// `previous`.
struct Classes {
  std::vector<HeadId> induction, previous, others;
  std::vector<double> best_prefix;  // of each layer
};
Classes classes_of(const Trace& t, double previous = 0.3);
std::string listed(const std::vector<HeadId>& heads);  // "L1H0 L1H3", or "none"

enum class Ablation { zero, mean, frozen };
// What the model predicts without these heads.
Predictions predict_without(const Transformer& model, const Batch& batch, const std::vector<HeadId>& heads,
                            Ablation how = Ablation::zero);
// The mean loss of that, with heads at zero.
double loss_without(const Transformer& model, const Batch& batch, const std::vector<HeadId>& heads);
// The probe that sets them to zero.
Probe knock_out(const Config& config, const std::vector<HeadId>& heads);

}  // namespace clearhead
