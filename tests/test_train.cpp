// The training loop: what it logs, that it stops at the first number that is none and keeps the last good checkpoint,
// and that a run that was killed at any moment, and resumed, ends in the same bytes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

#include "experiments/common/tasks.h"
#include "experiments/common/train.h"
#include "nn/files.h"
#include "tensor/kernels.h"
#include "tensor/parallel.h"
#include "tests/helpers.h"

using namespace clearhead;
namespace fs = std::filesystem;

namespace {

const RepeatedSegment task{.V = 12, .T = 12, .shortest = 2, .longest = 5};
Batch batch(Rng& rng) { return next_token_batch(task.sample(4, rng)); }

Transformer fresh() {
  Config c;
  c.d_vocab = 12, c.d_model = 8, c.n_heads = 2, c.d_head = 4, c.n_ctx = 12, c.dropout = 0.1;
  return Transformer(c, 3);
}

class Train : public InFolder {
 protected:
  void SetUp() override { set_num_threads(1); }  // a fork takes no threads along

  clearhead::Run run(bool resume, const std::string& out = "out") const {
    Options o;
    o.out = folder + "/" + out, o.resume = resume, o.quiet = true;
    clearhead::Run r({.name = "test", .question = ""}, o, 7);
    r.config = {{"V", task.V}};
    r.begin();
    return r;
  }
  std::string path(const std::string& file, const std::string& out = "out") const {
    return folder + "/" + out + "/test/seed-7/" + file;
  }
};

const TrainOptions quick{.steps = 45, .lr = 0.01, .warmup = 5, .log_every = 10, .checkpoint_every = 0};

TEST_F(Train, LogsWhatItSays) {
  auto r = run(false);
  Transformer model = fresh();
  std::vector<double> untrained;
  const Curve curve = train(r, "m", model, batch, quick, [&](const Transformer& m) -> nlohmann::json {
    EXPECT_FALSE(grad_enabled());
    if (untrained.empty()) {
      EXPECT_EQ(max_abs_diff(m.unembed.W_U.value(), fresh().unembed.W_U.value()), 0);
    }
    untrained.push_back(0);
    return {{"watched", untrained.size()}};
  });
  ASSERT_EQ(curve.size(), 6u);  // steps 0 10 20 30 40 45
  for (size_t i = 0; i < curve.size(); ++i) {
    const int64_t step = i == 5 ? 45 : int64_t(i) * 10;
    EXPECT_EQ(curve[i].at("step"), step);
    EXPECT_EQ(curve[i].at("tokens"), step * 4 * 12);
    EXPECT_EQ(curve[i].at("model"), "m");
    EXPECT_EQ(curve[i].at("watched"), i + 1);
    EXPECT_GT(curve[i].at("grad_norm"), 0);
  }
  EXPECT_EQ(curve[0].at("lr"), 0.01 / 5);
  EXPECT_LT(curve[5].at("loss"), curve[0].at("loss"));
  EXPECT_EQ(r.tokens, 45 * 4 * 12);
  EXPECT_TRUE(grad_enabled());
}

TEST_F(Train, LogsOnALogarithmicSchedule) {
  EXPECT_EQ((TrainOptions{.steps = 30, .log_every = 10}.logged()), (std::vector<int64_t>{0, 10, 20}));
  EXPECT_EQ((TrainOptions{.steps = 30, .log_growth = 0.5}.logged()),
            (std::vector<int64_t>{0, 1, 2, 3, 4, 6, 9, 13, 19, 28}));
}

// Any struct with FIELDS, by any loss.
TEST_F(Train, TrainsWhatHasALoss) {
  Rng init(1);
  Linear line(1, 1, init);
  const Trainee fit{named_params(line), {{"what", "y = 2 x - 1"}}, [&](const Batch&, Rng&) {
                      const Var off = line(Tensor::from({2, 1}, {0, 1})) - Var(Tensor::from({2, 1}, {-1, 1}));
                      return mean(off * off);
                    }};
  auto r = run(false);
  const Curve curve = train(r, "line", fit, batch, {.steps = 400, .lr = 0.05, .adam = {.weight_decay = 0}});
  EXPECT_LT(curve.back().at("loss"), 1e-4);
  EXPECT_NEAR(double(line.W.value().item()), 2, 0.02);
  EXPECT_NEAR(double(line.b->value().item()), -1, 0.02);
}

// Sgd on the same batches, by hand: the loop uses batch n of (seed, stream, n), and clips.
TEST_F(Train, IsAPlainLoop) {
  auto r = run(false);
  Transformer model = fresh(), by_hand = fresh();
  TrainOptions o = quick;
  o.steps = 5, o.clip = 0.5;
  train(r, "m", model, batch, o);
  const auto list = params(by_hand);
  AdamW adam(list, o.adam);
  for (uint64_t step = 0; step < 5; ++step) {
    Rng data(7, Stream::data, step), drop(7, Stream::dropout, step);
    const Batch b = batch(data);
    backward(by_hand.loss(b.inputs, b.targets, &drop));
    adam.step(0.01 * double(step + 1) / 5, clip_factor(global_norm(list), 0.5));
  }
  for (size_t i = 0; i < list.size(); ++i) EXPECT_EQ(max_abs_diff(params(model)[i].value(), list[i].value()), 0);
}

void expect_good(const std::string& file, int64_t step, const clearhead::Run& r, const TrainOptions& o) {
  Transformer model = fresh();
  AdamW adam(params(model));
  const nlohmann::json identity{
      {"label", "m"}, {"seed", 7}, {"model", to_json(model.config)}, {"train", to_json(o)}, {"config", r.config}};
  EXPECT_EQ(load_checkpoint(file, named_params(model), adam, identity).step, step);
  Rng data(1);
  const Batch b = batch(data);
  EXPECT_TRUE(std::isfinite(model.loss(b.inputs, b.targets).value().item()));
}

TEST_F(Train, StopsWhereTheLossIsNoNumber) {
  auto r = run(false);
  Transformer model = fresh();
  int64_t calls = 0;
  const auto poisoned = [&](Rng& rng) {
    if (calls++ == 7) {
      Tensor w = model.blocks[0].attn.W_V.value();
      w.mut()[0] = std::numeric_limits<Real>::quiet_NaN();
    }
    return batch(rng);
  };
  const std::string text = error_of([&] { train(r, "m", model, poisoned, quick); });
  EXPECT_TRUE(text.starts_with("m: training stopped at step 7: the loss is ")) << text;
  EXPECT_NE(text.find("the last checkpoint is kept"), std::string::npos);
  expect_good(path("m.checkpoint"), 6, r, quick);

  auto again = run(true);  // from step 6 on, as if nothing had happened
  Transformer rescued = fresh(), never_sick = fresh();
  train(again, "m", rescued, batch, quick);
  auto other = run(false, "other");
  train(other, "m", never_sick, batch, quick);
  EXPECT_EQ(read_file(path("m.checkpoint")), read_file(path("m.checkpoint", "other")));
}

// The weights of step 1 are finite, but so large that no loss comes out: they are no good checkpoint.
TEST_F(Train, ACheckpointHasProvedThatItsLossIsFinite) {
  auto r = run(false);
  Transformer model = fresh();
  TrainOptions o = quick;
  o.lr = 1e30, o.warmup = 0;
  EXPECT_TRUE(error_of([&] { train(r, "m", model, batch, o); }).starts_with("m: training stopped at step 1: "));
  expect_good(path("m.checkpoint"), 0, r, o);
  o.lr = 1e39, o.steps = 1;  // infinite at once, and no further step would notice
  auto last = run(false, "last");
  Transformer model_2 = fresh();
  EXPECT_TRUE(
      error_of([&] { train(last, "m", model_2, batch, o); }).starts_with("m: the last update made a weight infinite"));
}

TEST_F(Train, ResumingWhatIsCompleteOnlyLoads) {
  auto r = run(false);
  Transformer model = fresh(), loaded = fresh();
  const Curve curve = train(r, "m", model, batch, quick);
  const std::string metrics = read_file(path("metrics.jsonl"));
  auto again = run(true);
  const Curve same = train(
      again, "m", loaded, [](Rng&) -> Batch { throw Error("no batch is needed"); }, quick);
  EXPECT_EQ(same, curve);
  EXPECT_EQ(again.tokens, r.tokens);
  EXPECT_EQ(read_file(path("metrics.jsonl")), metrics);
  EXPECT_EQ(max_abs_diff(model.unembed.W_U.value(), loaded.unembed.W_U.value()), 0);
}

// kill -9 while steps, log lines and checkpoints are being written.
TEST_F(Train, KilledAtAnyMomentItResumesToTheSameBytes) {
  TrainOptions o = quick;
  o.steps = 70;
  auto whole = run(false, "whole");
  for (const char* label : {"first", "second"}) {
    Transformer model = fresh();
    train(whole, label, model, batch, o);
  }
  int kills = 0;
  for (bool finished = false; !finished && kills < 300;) {
    const pid_t child = fork();
    if (child == 0) {
      auto r = run(kills > 0);
      for (const char* label : {"first", "second"}) {
        Transformer model = fresh();
        train(r, label, model, batch, o);
      }
      _exit(0);
    }
    ::usleep(useconds_t(3000 + 2000 * kills + kills * 7919 % 20000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    finished = WIFEXITED(status);
    ASSERT_TRUE(!finished || WEXITSTATUS(status) == 0);
    kills += !finished;
    for (const std::string label : {"first", "second"})
      if (fs::exists(path(label + ".checkpoint"))) load_tensors(path(label + ".checkpoint"));
  }
  EXPECT_GT(kills, 3);
  for (const char* file : {"first.checkpoint", "second.checkpoint", "metrics.jsonl", "config.json"})
    EXPECT_EQ(read_file(path(file)), read_file(path(file, "whole"))) << file;
}

TEST_F(Train, ANewStartLeavesNoOldCheckpoint) {
  auto r = run(false);
  Transformer model = fresh();
  train(r, "m", model, batch, quick);
  ASSERT_TRUE(fs::exists(path("m.checkpoint")));
  run(true);
  EXPECT_TRUE(fs::exists(path("m.checkpoint")));
  run(false);  // else a later --resume would load it, next to the metrics of another run
  EXPECT_FALSE(fs::exists(path("m.checkpoint")));
}

TEST_F(Train, RefusesToGoOnFromWhatDoesNotFit) {
  auto r = run(false);
  Transformer model = fresh();
  train(r, "m", model, batch, quick);
  const std::string checkpoint = read_file(path("m.checkpoint")), config = read_file(path("config.json"));
  const auto resume = [&](const TrainOptions& o) {
    auto again = run(true);
    Transformer m = fresh();
    return error_of([&] { train(again, "m", m, batch, o); });
  };
  TrainOptions o = quick;
  o.lr = 0.02;
  EXPECT_EQ(resume(o), path("m.checkpoint") +
                           ": belongs to a run with other settings: /train/lr was 0.01, is now 0.02; give the same "
                           "options, or another --out");
  fs::remove(path("metrics.jsonl"));
  EXPECT_EQ(resume(quick),
            path("metrics.jsonl") +
                ": has 0 lines of 'm' up to step 45 of its checkpoint, not 6; start again without --resume");
  EXPECT_EQ(read_file(path("m.checkpoint")), checkpoint);
  EXPECT_EQ(read_file(path("config.json")), config);
}

}  // namespace
