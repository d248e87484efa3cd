// What reading a model costs, analysis by analysis, against vocabulary, heads and layers.
//
//     bench_circuits                                    # all
//     bench_circuits --benchmark_filter=copying         # one
//
// Growth, with V tokens, H heads in each of L layers, width r of a head, and B T positions:
//     copying        V^2 r for each head: every entry of W_E OV W_U is looked at once, 256 rows at a time
//     skip_trigrams  the same; twice for the sources that are shown
//     composition    (L H)^2 pairs, d r^2 each: only the small factors are multiplied
//     nulls          samples x d r^2
//     orders         L^2 H times one head's patterns and weights;  paths: (1 + H)^L such
#include <benchmark/benchmark.h>

#include <numeric>

#include "nn/circuits/tables.h"
#include "nn/circuits/trace.h"

using namespace clearhead;

namespace {

Weights model(const benchmark::State& state) {
  Config c;
  c.d_vocab = state.range(0), c.n_heads = state.range(1), c.n_layers = state.range(2);
  c.d_model = 256, c.d_head = 32, c.n_ctx = 75;
  return weights_of(Transformer(c, 1));
}

template <class F>
void each_head(const Weights& w, F f) {
  for (const auto& layer : w.layers)
    for (const Head& h : layer) f(h);
}

void copying_scores(benchmark::State& state) {
  const Weights w = model(state);
  for (auto _ : state) each_head(w, [&](const Head& h) { benchmark::DoNotOptimize(copying(token_ov(w, h))); });
}

void tables(benchmark::State& state) {
  const Weights w = model(state);
  const std::vector<double> p(size_t(w.V()), 1 / double(w.V()));
  std::vector<int64_t> all(static_cast<size_t>(w.V()));
  std::iota(all.begin(), all.end(), 0);
  for (auto _ : state) each_head(w, [&](const Head& h) { benchmark::DoNotOptimize(skip_trigrams(w, h, all, 5, p)); });
}

void pairs(benchmark::State& state) {
  const Weights w = model(state);
  for (auto _ : state)
    for (size_t one = 0; one < w.layers.size(); ++one)
      for (size_t two = one + 1; two < w.layers.size(); ++two)
        for (const Head& first : w.layers[one])
          for (const Head& second : w.layers[two])
            for (Through t : {Through::queries, Through::keys, Through::values})
              benchmark::DoNotOptimize(composition(t, first, second));
}

void nulls(benchmark::State& state) {
  const Weights w = model(state);
  Rng rng(1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(copying_null(w, 32, 50, rng));
    benchmark::DoNotOptimize(composition_null(w.d_model(), 32, 32, Through::keys, 50, rng));
  }
}

Trace some_trace(const Weights& w) {
  Rng rng(1);
  Tokens tokens(8, 75);
  for (int32_t& id : tokens.ids) id = int32_t(rng.below(w.V()));
  return trace(model_of(w), tokens);
}

void orders(benchmark::State& state) {
  const Weights w = model(state);
  const Trace t = some_trace(w);
  for (auto _ : state) benchmark::DoNotOptimize(streams_by_order(t.w, t.patterns, t.tokens));
}

void paths(benchmark::State& state) {
  const Weights w = model(state);
  const Trace t = some_trace(w);
  for (auto _ : state)
    for_each_path(t.w, t.patterns, t.tokens, 2, [](const Path&, const Tensor& x) { benchmark::DoNotOptimize(x); });
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"V", "heads", "layers"})->Unit(benchmark::kMillisecond)->UseRealTime();
  for (const std::vector<int64_t>& size :
       {std::vector<int64_t>{1024, 8, 2}, {2048, 8, 2}, {4096, 8, 2}, {4096, 4, 2}, {4096, 8, 4}})
    b->Args(size);
}
BENCHMARK(copying_scores)->Apply(sizes);
BENCHMARK(tables)->Name("skip_trigrams")->Apply(sizes);
BENCHMARK(pairs)->Name("composition")->Apply(sizes);
BENCHMARK(nulls)->Apply(sizes);
BENCHMARK(orders)->Apply(sizes);
BENCHMARK(paths)->Name("paths_of_two_heads")->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
