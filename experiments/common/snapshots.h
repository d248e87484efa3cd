// Snapshots: what is logged of every head, and of the losses, while a model trains, and what is made of it afterwards.
#pragma once

#include "experiments/common/measures.h"
#include "experiments/common/train.h"
#include "nn/circuits/trace.h"

namespace clearhead {

// Of every head, under <name>_<layer>: "prefix", "previous" (nn/circuits/heads.h), "copying" (its effect on the logits),
// "eigenvalues" (of OV), and from layer 1 on "qk_trace": the trace of the QK circuit over tokens where keys come through
// layer 0, each head weighted by its previous-token score (Olsson et al. 2022). And of the best heads: "prefix" in the last
// layer, "previous" in the first.
nlohmann::json head_snapshot(const Trace& t);
// One of these numbers, of every head of a layer at every snapshot.
std::vector<double> all_heads(const Curve& curve, const std::string& key);

// The losses of the first sequences, a number per token, to three decimals: for "losses" in a snapshot.
std::vector<double> rounded_losses(const Predictions& p, int64_t sequences);

// The "losses" of two models with the same snapshots as points, on the first two principal components of all of them:
// their largest distance up to a step, that at the end, and the length of the first one's way.
struct Apart {
  double before = 0, end = 0, way = 0;
  std::string table;  // every tenth snapshot
};
Apart loss_paths(const Curve& a, const Curve& b, double until);

}  // namespace clearhead
