// One training step (forward, backward, clip, AdamW) of two-layer attention-only models, in tokens/s and useful GFLOP/s.
//
//     bench_train                                          # all sizes: fused and composed, one thread and two
//     bench_train --benchmark_filter=train/512/256         # one size
//
// Useful FLOPs are 3 x those of the forward pass (2 per multiply-add), of attention only the half below the diagonal, and
// whatever is computed twice or masked away does not count. `of_sgemm` compares with one thread's sgemm at 1024 x 1024 x 1024,
// measured in the same process, so it means the same on any machine.
#include <benchmark/benchmark.h>

#include <chrono>
#include <fstream>

#include "nn/optim.h"
#include "nn/transformer.h"
#include "tensor/blas.h"
#include "tensor/parallel.h"

using namespace clearhead;

namespace {

double sgemm_gflops() {
  static const double rate = [] {
    Rng rng(1);
    const Tensor a = random_normal({1024, 1024}, 1, rng), b = random_normal({1024, 1024}, 1, rng);
    Tensor c({1024, 1024});
    double best = 0;
    for (int i = 0; i < 8; ++i) {
      const auto start = std::chrono::steady_clock::now();
      gemm(1024, 1024, 1024, 1, {a.data(), 1024}, {b.data(), 1024}, 0, c.mut().data(), 1024);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      best = std::max(best, 2 * 1024.0 * 1024 * 1024 / seconds.count() / 1e9);
    }
    return best;
  }();
  return rate;
}

double useful_flops_per_token(const Config& c, int64_t T) {
  const double d = double(c.d_model), attn = double(c.n_heads * c.d_head), V = double(c.d_vocab);
  const double per_layer = 8 * d * attn + 4 * attn * double(T) / 2;
  return 3 * (double(c.n_layers) * per_layer + 2 * d * V);
}

// The most memory that the process ever had, by the kernel's count. In MB; 0 where there is no /proc.
double peak_rss_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kilobytes = 0; word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024 / 1e6;
  return 0;
}

void train_step(benchmark::State& state, Kernel kernel) {
  Config c;
  c.d_vocab = state.range(0), c.d_model = state.range(1), c.n_heads = state.range(2), c.n_ctx = state.range(3);
  c.d_head = c.d_model / c.n_heads;
  const int64_t B = state.range(4);
  set_num_threads(int(state.range(5)));
  static const double start_rss = peak_rss_megabytes();  // before the first model of this process
  Transformer model(c, 1);
  model.use(kernel);
  const auto list = params(model);
  AdamW adam(list);
  Rng rng(1, Stream::data);
  Batch batch{Tokens(B, c.n_ctx), Tokens(B, c.n_ctx)};
  for (auto* tokens : {&batch.inputs, &batch.targets})
    for (int32_t& id : tokens->ids) id = int32_t(rng.below(c.d_vocab));
  const auto step = [&] {
    const Var loss = model.loss(batch.inputs, batch.targets);
    backward(loss);
    adam.step(1e-3, clip_factor(global_norm(list), 1));
    return loss.value().item();
  };
  for (int i = 0; i < 3; ++i) step();
  const int64_t asked_before = memory_stats().from_system;
  for (auto _ : state) benchmark::DoNotOptimize(step());
  const double peak_rss = peak_rss_megabytes();
  const double tokens = double(B * c.n_ctx), gflop = tokens * useful_flops_per_token(c, c.n_ctx) / 1e9;
  using benchmark::Counter;
  state.counters["tokens/s"] = Counter(tokens, Counter::kIsIterationInvariantRate);
  state.counters["GFLOP/s"] = Counter(gflop, Counter::kIsIterationInvariantRate);
  state.counters["of_sgemm"] = Counter(gflop / sgemm_gflops(), Counter::kIsIterationInvariantRate);
  state.counters["allocations"] = double(memory_stats().from_system - asked_before);
  state.counters["peak_MB"] = double(memory_stats().peak_bytes) / 1e6;
  state.counters["start_RSS_MB"] = start_rss;
  state.counters["peak_RSS_MB"] = peak_rss;
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"V", "d", "heads", "T", "batch", "threads"})->Unit(benchmark::kMillisecond)->UseRealTime();
  for (int threads : {1, 2})
    for (const std::vector<int64_t>& size : {std::vector<int64_t>{64, 64, 4, 64, 32}, {512, 128, 4, 128, 32},
                                             {512, 256, 8, 256, 16}, {4096, 256, 8, 256, 8}, {512, 512, 8, 512, 8}}) {
      auto args = size;
      args.push_back(threads);
      b->Args(args);
    }
}
BENCHMARK_CAPTURE(train_step, fused, Kernel::fused)->Apply(sizes);
BENCHMARK_CAPTURE(train_step, composed, Kernel::composed)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
