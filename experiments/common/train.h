// The training loop. There is one, for all experiments: batches in, a trained model out, with logging, progress,
// checkpoints, interruption and resumption.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/common/run.h"
#include "nn/model_file.h"

namespace clearhead {

struct TrainOptions {
  int64_t steps = 1000;
  double lr = 3e-3;
  bool cosine = false;  // decay to 0 instead of constant after the warm-up
  int64_t warmup = 100;
  AdamWOptions adam = {};  // betas .9, .98, weight decay .01
  double clip = 1;         // global gradient norm
  int64_t log_every = 25;
  double log_growth = 0;         // instead: each logged step this share later than the last, so .05 gives 47 per decade
  double checkpoint_every = 10;  // seconds

  std::vector<int64_t> logged() const;  // the steps that are, in order; besides them, the end
};

nlohmann::json to_json(const TrainOptions& o);

// What was logged at a step: {"model": label, "step", "tokens", "loss", "lr", "grad_norm", and what `watch` returned}.
using Curve = std::vector<nlohmann::json>;
// The batch of a step: a function of rng, which is a function of (seed, step) only, so that a resumed run sees the same
// data.
using BatchSource = std::function<Batch(Rng& rng)>;
// Extra numbers to log. Called before the update of a logged step, so that step 0 is the untrained model, and once at
// the end.
using Watch = std::function<nlohmann::json(const Transformer& model)>;

// What the loop trains: the parameters of any struct with FIELDS, by a loss.
struct Trainee {
  NamedParams params;
  nlohmann::json config;  // what it is made of; --resume demands the same
  std::function<Var(const Batch& batch, Rng& drop)> loss;
};
Trainee trainee(Transformer& model);  // by its own loss, which can be exchanged

// Trains in place. Writes <label>.checkpoint and appends to metrics.jsonl in the run's folder; with --resume it
// goes on from the checkpoint, or only loads it if it was complete. Throws Interrupted after a signal, once a
// checkpoint is written; Error if the loss or a gradient is no longer finite (the last good checkpoint stays).
Curve train(Run& run, const std::string& label, Transformer& model, const BatchSource& batches,
            const TrainOptions& options, const Watch& watch = nullptr);
Curve train(Run& run, const std::string& label, const Trainee& trainee, const BatchSource& batches,
            const TrainOptions& options, const std::function<nlohmann::json()>& watch = nullptr);

}  // namespace clearhead
