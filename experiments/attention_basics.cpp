// Question   What does self-attention compute, step by step, and what does the simplest version leave out?
// Model      None: six words as three-dimensional vectors ("Your journey starts with one step"), and random vectors.
// Source     A widely copied tutorial on "simple self-attention without trainable weights". Its printed numbers are
//            reproduced to four decimals; then come the things that it does not say: the naive softmax overflows, a dot
//            product is not a similarity, every word sees the future, nothing is scaled, and nothing can be learned.
#include <fmt/core.h>

#include <cmath>
#include <numeric>

#include "experiments/common/run.h"
#include "nn/layers.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"
#include "tensor/print.h"

using namespace clearhead;

namespace {

const Tensor words = Tensor::from({6, 3}, {0.43, 0.15, 0.89, 0.55, 0.87, 0.66, 0.57, 0.85, 0.64, 0.22, 0.58, 0.33, 0.77,
                                           0.25, 0.10, 0.05, 0.80, 0.55});

// What the source prints, and the values of the same computation that it does not print, to four decimals.
const Tensor published_scores =
    Tensor::from({6, 6}, {.9995, .9544,  .9422,  .4753, .4576, .6310,  .9544, 1.4950, 1.4754, .8434, .7070, 1.0865,
                          .9422, 1.4754, 1.4570, .8296, .7154, 1.0605, .4753, .8434,  .8296,  .4937, .3474, .6565,
                          .4576, .7070,  .7154,  .3474, .6654, .2935,  .6310, 1.0865, 1.0605, .6565, .2935, .9450});
const Tensor published_weights =
    Tensor::from({6, 6}, {.2098, .2006, .1981, .1242, .1220, .1452, .1385, .2379, .2333, .1240, .1082, .1581,
                          .1390, .2369, .2326, .1242, .1108, .1565, .1435, .2074, .2046, .1462, .1263, .1720,
                          .1526, .1958, .1975, .1367, .1879, .1295, .1385, .2184, .2128, .1420, .0988, .1896});
const Tensor published_contexts = Tensor::from({6, 3}, {.4421, .5931, .5790, .4419, .6515, .5683, .4431, .6496, .5671,
                                                        .4304, .6298, .5510, .4671, .5910, .5266, .4177, .6503, .5645});
const Tensor published_sum_norm = Tensor::from({6}, {.1455, .2278, .2249, .1285, .1077, .1656});

const std::string tutorial = "simple self-attention tutorial";

// e^x / sum e^x as one would write it first. e^x overflows above 88 in float.
Tensor naive_softmax(const Tensor& x) {
  const Tensor e = map(x, [](Real v) { return std::exp(v); });
  const Tensor total = sum(e, -1);
  return div(e, total.reshape(x.shape().with(-1, 1)).expand(x.shape()));
}

int64_t count_not_finite(const Tensor& x) {
  return std::ranges::count_if(x.flat(), [](Real v) { return !std::isfinite(v); });
}

void six_words(Run& run) {
  run.say("Six words, one vector each (rows: Your journey starts with one step)\n" + to_string(words, 2));
  const Tensor scores = matmul(words, words.transpose());
  run.say("\n1. Scores: the dot product of every word with every other, X X^T\n" + to_string(scores));
  const Tensor weights = softmax(scores);
  run.say("\n2. Weights: every row through a softmax, so that it sums to 1\n" + to_string(weights));
  const Tensor contexts = matmul(weights, words);
  run.say("\n3. Contexts: every word becomes the weighted mean of all words\n" + to_string(contexts));
  const Tensor query = scores.select(0, 1);
  const Tensor sum_norm = scale(query, Real(1 / sum_all(query)));
  const double worst =
      std::max({max_abs_diff(scores, published_scores), max_abs_diff(weights, published_weights),
                max_abs_diff(contexts, published_contexts), max_abs_diff(sum_norm, published_sum_norm)});
  run.finding(identity, "S4", "every number of the tutorial, and the tables that it does not print",
              "largest difference, 96 numbers", worst, at_most(5.1e-5), tutorial, {}, "four decimals");

  const auto most_attended = [](const Tensor& table) {  // for every row, the column of its maximum
    std::vector<int64_t> argmax;
    for (int64_t i = 0; i < table.dim(0); ++i) {
      const Tensor row = table.select(0, i);
      argmax.push_back(std::ranges::max_element(row.flat()) - row.flat().begin());
    }
    return argmax;
  };
  const auto themselves = [](const std::vector<int64_t>& argmax) {
    double n = 0;
    for (size_t i = 0; i < argmax.size(); ++i) n += argmax[i] == int64_t(i);
    return n;
  };
  const Tensor lengths =
      map(sum(mul(words, words), -1), [](Real v) { return std::sqrt(v); }).reshape({6, 1}).expand({6, 3});
  const Tensor directions = div(words, lengths);
  const auto by_dot = most_attended(weights), by_cosine = most_attended(matmul(directions, directions.transpose()));
  std::string rows;
  for (int64_t j : by_dot) rows += fmt::format(" {}", j + 1);
  run.say(fmt::format(
      "\n4. Is a higher dot product a higher similarity? The words attend most to the words{}: long vectors win.\n"
      "   {:.0f} of 6 find themselves most similar; by cosine, which ignores length, {:.0f} do.",
      rows, themselves(by_dot), themselves(by_cosine)));
  run.finding(identity, "S4", "a dot product is not a similarity", "words of 6 that attend most to themselves",
              themselves(by_dot), at_most(2), tutorial, {{"by cosine", themselves(by_cosine)}},
              "\"the higher the dot product, the more similar\"");
}

void softmax_in_practice(Run& run) {
  const Tensor large = scale(matmul(words, words.transpose()), 1000);
  const int64_t naive = count_not_finite(naive_softmax(large)), stable = count_not_finite(softmax(large));
  run.say(fmt::format(
      "\n5. Scores times 1000: the naive softmax gives {} of 36 NaN, subtracting each row's maximum first gives {}",
      naive, stable));
  run.finding(identity, "S4", "the naive softmax overflows, the stable one does not", "NaN of the stable softmax",
              double(stable), at_most(0), tutorial, {{"NaN of the naive one", double(naive)}},
              "named as a danger, not shown");
  const Tensor signs = Tensor::from({3}, {1, -2, 0.5});
  run.say("   Dividing by the sum instead of a softmax works while all scores are positive: [1 -2 0.5] becomes " +
          to_string(scale(signs, Real(1 / sum_all(signs))), 1));
}

void what_is_missing(Run& run) {
  Rng rng(run.seed());
  const Tensor scores = matmul(words, words.transpose()), masked = causal_softmax(scores);
  run.say("\n6. A model that predicts the next word must not see it. The causal mask:\n" + to_string(masked));
  double off = 0, future = 0;
  for (int64_t i = 0; i < 6; ++i) {
    off = std::max(off, std::abs(sum_all(masked.select(0, i)) - 1));
    for (int64_t j = i + 1; j < 6; ++j) future = std::max(future, double(std::abs(masked.at({i, j}))));
  }
  run.finding(identity, "S1", "rows of a pattern sum to 1", "largest |row sum - 1|", off, at_most(1e-6),
              "scaled dot-product attention");
  run.finding(identity, "S1", "what is masked has weight exactly 0", "largest weight on the future", future, at_most(0),
              "scaled dot-product attention", {{"without mask", double(softmax(scores).at({0, 1}))}});

  run.say(
      "\n7. Without the factor 1/sqrt(d_k), q.k of unit-variance vectors has variance d_k, and softmax sees one word "
      "only:\n"
      "   d_k    variance of q.k / d_k    entropy of the weights over 64 words, with and without the factor (ln 64 = "
      "4.16)");
  double worst = 0;
  for (const int64_t d_k : {10, 64, 512}) {
    constexpr int64_t n = 4096, seen = 64;
    const Tensor q = random_normal({n, d_k}, 1, rng), k = random_normal({n, d_k}, 1, rng),
                 dots = matmul(q, k.transpose());
    const double ratio = sum_all(mul(dots, dots)) / double(n * n * d_k);
    const Tensor s = dots.narrow(1, 0, seen);
    const auto entropy = [&](double factor) {
      const Tensor p = softmax(scale(s, Real(factor)));
      return -sum_all(map(p, [](Real x) { return x > 0 ? x * std::log(x) : Real(0); })) / double(n);
    };
    run.say(
        fmt::format("   {:<6} {:<24.3f} {:.2f}   {:.2f}", d_k, ratio, entropy(1 / std::sqrt(double(d_k))), entropy(1)));
    worst = std::max(worst, std::abs(ratio - 1));
  }
  run.finding(planted, "S1", "q.k has variance d_k, which is why scores are divided by sqrt(d_k)",
              "largest |var(q.k) / d_k - 1|, d_k = 10, 64, 512", worst, at_most(0.05), "scaled dot-product attention",
              {}, "d_k");

  const Tensor W_Q = random_normal({3, 3}, 1, rng), W_K = random_normal({3, 3}, 1, rng);
  const Tensor learned = matmul(matmul(words, W_Q), matmul(words, W_K).transpose());
  const auto asymmetry = [](const Tensor& s) { return max_abs_diff(s, s.transpose()); };
  run.say(
      "\n8. X X^T has nothing to learn, and is symmetric: if a looks at b, b looks at a as much. Weights W_Q and W_K "
      "end both.");
  run.finding(identity, "S1", "queries and keys of their own make attention directed",
              "largest |S_ij - S_ji| with W_Q, W_K", asymmetry(learned), at_least(0.01), "scaled dot-product attention",
              {{"without weights", asymmetry(scores)}});
}

}  // namespace

int main(int argc, char** argv) {
  return run_experiment(argc, argv,
                        {.name = "attention_basics", .question = "What does self-attention compute, step by step?"},
                        nullptr, [](Run& run) {
                          run.config = nlohmann::json::object();
                          run.begin();
                          six_words(run);
                          softmax_in_practice(run);
                          what_is_missing(run);
                        });
}
