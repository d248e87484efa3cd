#include "experiments/common/train.h"

#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "experiments/common/progress.h"
#include "nn/files.h"
#include "tensor/kernels.h"

namespace clearhead {
namespace {

using Json = nlohmann::json;

// metrics.jsonl, one object per line, of all the models of a run. Lines of this model beyond the checkpoint, and a last
// line that a kill cut in two, are dropped; they will be written again.
class Metrics {
 public:
  Metrics(const std::string& path, const std::string& label, int64_t first_step, bool keep)
      : path_(path), label_(label) {
    std::string kept;
    std::ifstream in(path);
    for (std::string line; keep && std::getline(in, line);) {
      const Json entry = Json::parse(line, nullptr, false);
      if (!entry.is_object() || !entry.contains("model") || !entry.contains("step")) continue;
      if (entry["model"] == label) {
        if (entry["step"] >= first_step) continue;
        curve.push_back(entry);
      }
      kept += line + "\n";
    }
    in.close();
    write_file(path, kept);
    out_.open(path, std::ios::app);
  }

  void add(Json entry) {
    entry["model"] = label_;
    out_ << entry.dump() << std::endl;
    require(out_.good(), path_, "cannot write");
    curve.push_back(std::move(entry));
  }

  Curve curve;

 private:
  std::string path_, label_;
  std::ofstream out_;
};

}  // namespace

Json to_json(const TrainOptions& o) {
  return {{"steps", o.steps},
          {"lr", o.lr},
          {"cosine", o.cosine},
          {"warmup", o.warmup},
          {"beta1", o.adam.beta1},
          {"beta2", o.adam.beta2},
          {"eps", o.adam.eps},
          {"weight_decay", o.adam.weight_decay},
          {"clip", o.clip},
          {"log_every", o.log_every},
          {"log_growth", o.log_growth}};
}

std::vector<int64_t> TrainOptions::logged() const {
  std::vector<int64_t> list;
  for (int64_t step = 0; step<steps; step = log_growth> 0 ? std::max(step + 1, int64_t(double(step) * (1 + log_growth)))
                                                          : step + log_every)
    list.push_back(step);
  return list;
}

Trainee trainee(Transformer& model) {
  return {named_params(model), to_json(model.config),
          [model](const Batch& batch, Rng& drop) { return model.loss(batch.inputs, batch.targets, &drop); }};
}

Curve train(Run& run, const std::string& label, Transformer& model, const BatchSource& batches, const TrainOptions& o,
            const Watch& watch) {
  return train(run, label, trainee(model), batches, o, watch ? [&] { return watch(model); } : std::function<Json()>());
}

Curve train(Run& run, const std::string& label, const Trainee& trainee, const BatchSource& batches,
            const TrainOptions& o, const std::function<Json()>& watch) {
  std::vector<Var> list;
  for (const auto& [name, p] : trainee.params) list.push_back(p);
  const std::vector<int64_t> log_at = o.logged();
  AdamW adam(list, o.adam);
  const Schedule schedule{.lr = o.lr, .warmup = o.warmup, .total = o.steps, .cosine = o.cosine};
  const std::string checkpoint = run.path(label + ".checkpoint"), metrics_path = run.path("metrics.jsonl");
  const Json identity{
      {"label", label}, {"seed", run.seed()}, {"model", trainee.config}, {"train", to_json(o)}, {"config", run.config}};
  const bool resumed = run.options().resume && std::filesystem::exists(checkpoint);
  Progress done = resumed ? load_checkpoint(checkpoint, trainee.params, adam, identity) : Progress{};
  Metrics metrics(metrics_path, label, done.step == o.steps ? done.step + 1 : done.step,
                  run.options().resume || run.trained > 0);
  ++run.trained;
  const auto logged = std::ranges::lower_bound(log_at, done.step) - log_at.begin() + (done.step == o.steps);
  require(int64_t(metrics.curve.size()) == logged, metrics_path, "has ", metrics.curve.size(), " lines of '", label,
          "' up to step ", done.step, " of its checkpoint, not ", logged, "; start again without --resume");

  int64_t tokens_per_step = 0;
  const auto log = [&](int64_t step, Json entry) {
    entry.update({{"step", step}, {"tokens", step * tokens_per_step}});
    if (watch) {
      const NoGrad no_grad;
      entry.update(watch());
    }
    metrics.add(std::move(entry));
  };
  const auto save = [&] { save_checkpoint(checkpoint, trainee.params, adam, done, identity); };

  ProgressBar bar(label, done.step, o.steps, run.options().quiet);
  auto last_save = std::chrono::steady_clock::now();
  while (done.step < o.steps) {
    Rng data(run.seed(), Stream::data, uint64_t(done.step)), drop(run.seed(), Stream::dropout, uint64_t(done.step));
    const Batch batch = batches(data);
    tokens_per_step = batch.inputs.B * batch.inputs.T;
    const Var loss = trainee.loss(batch, drop);
    backward(loss);
    const double value = loss.value().item(), norm = global_norm(list), lr = schedule.at(done.step);
    require(std::isfinite(value) && std::isfinite(norm), label, "training stopped at step ", done.step,
            ": the loss is ", value, " and the gradient norm ", norm,
            "; the last checkpoint is kept (a lower learning rate may help)");
    // Now, and not after the update: these weights have just given a finite loss and gradient, so they are good ones.
    const auto now = std::chrono::steady_clock::now();
    const bool stop = interrupted() != 0;
    if (stop || now - last_save > std::chrono::duration<double>(o.checkpoint_every)) {
      save();
      last_save = now;
    }
    if (stop) break;
    if (std::ranges::binary_search(log_at, done.step))
      log(done.step, {{"loss", value}, {"lr", lr}, {"grad_norm", norm}});
    adam.step(lr, clip_factor(norm, o.clip));
    ++done.step;
    bar.update(done.step, value, tokens_per_step);
    if (done.step < o.steps) continue;
    require(std::ranges::all_of(list, [](const Var& p) { return all_finite(p.value()); }), label,
            "the last update made a weight infinite; the last checkpoint is kept (a lower learning rate may help)");
    log(done.step, {{"loss", value}, {"lr", lr}, {"grad_norm", norm}});
    save();
  }
  bar.finish();
  if (interrupted()) throw Interrupted{interrupted()};
  run.tokens += int64_t(metrics.curve.back().at("tokens"));
  return metrics.curve;
}

}  // namespace clearhead
