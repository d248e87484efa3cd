// Training is a function of its seed: the same bits for any number of threads, and again on the next run. And it
// settles down: after the first steps, no tensor memory is asked of the system any more.
#include <gtest/gtest.h>

#include <cstring>

#include "nn/optim.h"
#include "nn/transformer.h"
#include "tensor/parallel.h"

using namespace clearhead;

namespace {

struct Threads {  // restores the number of threads
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before = num_threads();
};

// Large enough that every kind of loop is cut into several chunks: 19,200 embedding weights, 512 positions, 32 heads.
Config plain() {
  Config c;
  c.d_vocab = 300, c.d_model = 64, c.n_layers = 2, c.n_heads = 4, c.d_head = 16, c.n_ctx = 64;
  return c;
}
Config everything() {
  Config c = plain();
  c.positions = Positions::learned, c.biases = c.layer_norm = true, c.d_mlp = 128, c.dropout = 0.1;
  return c;
}

Batch random_batch(const Config& c, uint64_t step) {
  Rng rng(4, Stream::data, step);
  Tokens s(8, c.n_ctx + 1);
  for (int32_t& token : s.ids) token = int32_t(rng.below(c.d_vocab));
  return next_token_batch(s);
}

struct Trained {
  std::vector<Real> weights, losses;
};
Trained trained(const Config& c, uint64_t seed, int steps, Kernel kernel = Kernel::fused) {
  Transformer model(c, seed);
  model.use(kernel);
  const auto list = params(model);
  AdamW adam(list);
  Trained result;
  for (int step = 0; step < steps; ++step) {
    const Batch batch = random_batch(c, uint64_t(step));
    Rng drop(seed, Stream::dropout, uint64_t(step));
    const Var loss = model.loss(batch.inputs, batch.targets, &drop);
    backward(loss);
    adam.step(3e-3, clip_factor(global_norm(list), 1));
    result.losses.push_back(loss.value().item());
  }
  for (const Var& p : list)
    result.weights.insert(result.weights.end(), p.value().flat().begin(), p.value().flat().end());
  return result;
}

bool same_bits(const std::vector<Real>& a, const std::vector<Real>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0;
}

TEST(Determinism, TheSameBitsForAnyNumberOfThreads) {
  for (const Config& c : {plain(), everything()})
    for (const Kernel kernel : {Kernel::fused, Kernel::composed}) {
      const int steps = kernel == Kernel::fused ? 20 : 3;
      const auto with = [&](int threads) {
        const Threads scope(threads);
        return trained(c, 1, steps, kernel);
      };
      const Trained one = with(1);
      for (const int threads : {2, 3}) {
        const Trained more = with(threads);
        EXPECT_TRUE(same_bits(one.losses, more.losses)) << threads;
        EXPECT_TRUE(same_bits(one.weights, more.weights)) << threads;
      }
      if (kernel == Kernel::fused) {
        EXPECT_LT(one.losses.back(), one.losses.front());
      }
    }
}

TEST(Determinism, TheSeedDecides) {
  const Trained a = trained(everything(), 1, 3), again = trained(everything(), 1, 3),
                other = trained(everything(), 2, 3);
  EXPECT_TRUE(same_bits(a.weights, again.weights));
  EXPECT_FALSE(same_bits(a.weights, other.weights));
}

// Dropout draws from its own stream: a model without it must not notice that one is offered.
TEST(Determinism, AnUnusedDropoutStreamChangesNothing) {
  const Transformer model(plain(), 1);
  const Batch batch = random_batch(plain(), 0);
  Rng drop(1, Stream::dropout);
  EXPECT_EQ(model.loss(batch.inputs, batch.targets, &drop).value().item(),
            model.loss(batch.inputs, batch.targets).value().item());
}

TEST(Memory, ASteadyTrainingStepAllocatesNothing) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the free list is off under the address sanitizer";
#endif
  for (const int threads : {1, 2}) {
    const Threads scope(threads);
    Transformer model(everything(), 1);
    const auto list = params(model);
    AdamW adam(list);
    int64_t asked = 0, live = 0;
    for (int step = 0; step < 12; ++step) {
      const Batch batch = random_batch(everything(), uint64_t(step));
      Rng drop(1, Stream::dropout, uint64_t(step));
      backward(model.loss(batch.inputs, batch.targets, &drop));
      adam.step(1e-3, clip_factor(global_norm(list), 1));
      if (step == 2) asked = memory_stats().from_system, live = memory_stats().live_bytes;
    }
    // Two threads may need a work space each in the same moment, for the first time, at any step.
    EXPECT_LE(memory_stats().from_system - asked, threads == 1 ? 0 : 8) << threads << " threads";
    EXPECT_EQ(memory_stats().live_bytes, live);  // nor does anything leak
  }
}

}  // namespace
