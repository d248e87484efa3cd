// One training step (forward, backward, clip, AdamW) of two-layer attention-only models, in tokens/s and useful GFLOP/s.
//
//     bench_train                                          # all sizes: fused and composed, one thread and two
//     bench_train --benchmark_filter=train/512/256         # one size
//
// Useful FLOPs are 3 x those of the forward pass (2 per multiply-add), of attention only the half below the diagonal, and
// whatever is computed twice or masked away does not count. `of_sgemm` compares with one thread's sgemm at 1024 x 1024 x
// 1024, which takes turns with the steps, so that a machine's changing speed does not count either.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "nn/optim.h"
#include "nn/transformer.h"
#include "tensor/blas.h"
#include "tensor/parallel.h"

using namespace clearhead;

namespace {

double seconds(const auto& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> x) {
  std::ranges::sort(x);
  return x[x.size() / 2];
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
  const Tensor square = random_normal({1024, 1024}, 1, rng);
  Tensor out({1024, 1024});
  for (int i = 0; i < 3; ++i) step();
  const int64_t asked_before = memory_stats().from_system;
  std::vector<double> step_seconds, sgemm_seconds;
  for (auto _ : state) {
    step_seconds.push_back(seconds([&] { benchmark::DoNotOptimize(step()); }));
    sgemm_seconds.push_back(seconds(
        [&] { gemm(1024, 1024, 1024, 1, {square.data(), 1024}, {square.data(), 1024}, 0, out.mut().data(), 1024); }));
    state.SetIterationTime(step_seconds.back());
  }
  const double peak_rss = peak_rss_megabytes();
  const double tokens = double(B * c.n_ctx), gflop = tokens * useful_flops_per_token(c, c.n_ctx) / 1e9;
  state.counters["tokens/s"] = tokens / median(step_seconds);
  state.counters["GFLOP/s"] = gflop / median(step_seconds);
  const double sgemm_gflop = 2 * 1024. * 1024. * 1024. / 1e9;
  state.counters["of_sgemm"] = gflop / median(step_seconds) / (sgemm_gflop / median(sgemm_seconds));
  state.counters["allocations"] = double(memory_stats().from_system - asked_before);
  state.counters["peak_MB"] = double(memory_stats().peak_bytes) / 1e6;
  state.counters["start_RSS_MB"] = start_rss;
  state.counters["peak_RSS_MB"] = peak_rss;
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"V", "d", "heads", "T", "batch", "threads"})->Unit(benchmark::kMillisecond)->UseManualTime();
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
