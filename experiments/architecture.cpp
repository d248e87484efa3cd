// Question   Is a transformer what "A Mathematical Framework for Transformer Circuits" says it is: a stream that heads
//            read and add to, one by one, and that one can take apart into paths?
// Model      2 layers of 4 heads, trained a little on the repeated-segment task, so that no weight is special.
// Findings   A1-A10: identities. Each compares two computations of the same thing; its control makes one mistake.
// Source     Elhage et al. 2021, "Transformer overview".
#include <fmt/core.h>

#include <cmath>

#include "experiments/common/measures.h"
#include "experiments/common/tasks.h"
#include "experiments/common/train.h"
#include "nn/circuits/trace.h"
#include "nn/circuits/transform.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {
const std::string elhage = "Elhage et al. 2021";

Tensor logits(const Weights& w, const Tokens& tokens) { return trace(model_of(w), tokens).logits; }

void heads_are_independent(Run& run, const Trace& t) {
  const Tensor x = embedded(t.w, t.tokens);
  const auto out = [&](size_t h) { return moved(t.w.layers[0][h], t.patterns[0].select(1, int64_t(h)), x); };
  Tensor sum(x.shape());
  for (size_t h = 0; h < t.w.layers[0].size(); ++h) add_into(sum, out(h));
  const Tensor& all = t.probe["blocks.0.attn.out"];
  run.finding(identity, "A1", "heads are independent, and add up", "sum over heads of A x W_V W_O, against all at once",
              relative_difference(sum, all), at_most(1e-5), elhage,
              {{"one head left out", relative_difference(sub(sum, out(0)), all)}});

  Rng rng(run.seed(), Stream::analysis);
  const Tensor y = random_normal(x.shape(), 1, rng), pattern = t.patterns[1].select(1, 0);
  const Head& head = t.w.layers[1][0];
  const Tensor together = moved(head, pattern, add(scale(x, 2), scale(y, -3)));
  const Tensor apart = add(scale(moved(head, pattern, x), 2), scale(moved(head, pattern, y), -3));
  const Tensor A_other = causal_softmax(random_normal(pattern.shape(), 1, rng));
  run.finding(identity, "A2", "with its pattern fixed, a head is linear",
              "head(2x - 3y), against 2 head(x) - 3 head(y)", relative_difference(together, apart), at_most(1e-5),
              elhage, {{"another pattern", relative_difference(moved(head, A_other, x), moved(head, pattern, x))}});
}

void keys_are_intermediate(Run& run, const Trace& t) {
  Rng rng(run.seed(), Stream::analysis, 1);
  const Weights w = change_heads(t.w, rng);
  Weights wrong = t.w;
  wrong.layers[1][0].W_Q = w.layers[1][0].W_Q;
  run.finding(identity, "A3", "queries, keys and values are only intermediate results",
              "logits with W_Q R, W_K R^-T, W_V S, S^-1 W_O, against those without",
              relative_difference(logits(w, t.tokens), t.logits), at_most(1e-4), elhage,
              {{"W_Q of one head alone", relative_difference(logits(wrong, t.tokens), t.logits)}});
}

// The logits after some steps from these weights.
template <class Optimizer>
Tensor trained_logits(const Weights& start, const RepeatedSegment& task, uint64_t seed, double lr,
                      const Tokens& tokens) {
  Transformer model = model_of(start);
  const auto list = params(model);
  Optimizer optimizer(list);
  for (uint64_t step = 0; step < 30; ++step) {
    Rng rng(seed, Stream::data, step);
    const Batch batch = next_token_batch(task.sample(16, rng));
    backward(model.loss(batch.inputs, batch.targets));
    optimizer.step(lr);
  }
  return logits(weights_of(model), tokens);
}

void no_privileged_basis(Run& run, const Trace& t, const Weights& start, const RepeatedSegment& task) {
  Rng rng(run.seed(), Stream::analysis, 2);
  const Tensor O = random_orthogonal(t.w.d_model(), rng);
  Weights wrong = rotate_stream(t.w, O);
  wrong.W_U = t.w.W_U;
  run.finding(identity, "A4", "the stream has no privileged basis",
              "logits with the stream rotated, against those without",
              relative_difference(logits(rotate_stream(t.w, O), t.tokens), t.logits), at_most(1e-4), elhage,
              {{"W_U not rotated", relative_difference(logits(wrong, t.tokens), t.logits)}});
  const auto change = [&]<class Optimizer>(double lr) {
    return relative_difference(trained_logits<Optimizer>(rotate_stream(start, O), task, run.seed(), lr, t.tokens),
                               trained_logits<Optimizer>(start, task, run.seed(), lr, t.tokens));
  };
  run.finding(identity, "A4", "gradient descent does not see the basis either",
              "logits after 30 steps of SGD from rotated weights, against those from others",
              change.template operator()<Sgd>(0.1), at_most(1e-4), "control");
  run.finding(empirical, "A4", "but Adam does: it scales every coordinate by itself",
              "logits after 30 steps of AdamW from rotated weights, against those from others",
              change.template operator()<AdamW>(3e-3), at_least(0.01), "control");
}

// Layer 1's queries, keys and values of what a head of layer 0 wrote, through the product of their weights.
void virtual_weights(Run& run, const Trace& t) {
  const Head &first = t.w.layers[0][1], &second = t.w.layers[1][2];
  const Tensor x = embedded(t.w, t.tokens), pattern = t.patterns[0].select(1, 1), wrote = moved(first, pattern, x);
  const Tensor z = matmul(pattern, matmul(x, first.W_V));
  double worst = 0;
  for (const Tensor& W_in : {second.W_Q, second.W_K, second.W_V})
    worst = std::max(worst, relative_difference(matmul(z, matmul(first.W_O, W_in)), matmul(wrote, W_in)));
  const Tensor transposed = matmul(second.W_Q.transpose(), first.W_O.transpose());
  run.finding(identity, "A5", "virtual weights W_O W_in connect a head to every later one",
              "what layer 1 reads of a head of layer 0, through virtual weights, against through the stream", worst,
              at_most(1e-5), elhage,
              {{"in the wrong order", relative_difference(matmul(z, transposed), matmul(wrote, second.W_Q))}});
}

void folding(Run& run, const Config& base, const Tokens& tokens) {
  const NoGrad no_grad;
  Config c = base;
  c.biases = true;
  const Transformer biased = noisy_model(c, run.seed());
  Weights w = fold_biases(biased);
  const Tensor expected = biased.logits(tokens).value();
  const double residual = relative_difference(logits(w, tokens), expected);
  w.W_U = w.W_U.clone();
  std::ranges::fill(w.W_U.mut().subspan(size_t(c.d_model * c.d_vocab)), Real(0));  // the row that reads the 1
  run.finding(identity, "A6", "biases are weights from one more dimension that is always 1",
              "logits of the model without biases, d_model + 1, against those with", residual, at_most(1e-4), elhage,
              {{"without b_U", relative_difference(logits(w, tokens), expected)}});
  c.biases = false, c.layer_norm = true, c.positions = Positions::learned;
  const Transformer normed = noisy_model(c, run.seed());
  Transformer folded = fold_layer_norm(normed);
  const auto log_probs = [&](const Transformer& m) { return log_softmax(m.logits(tokens).value()); };
  const double norm_residual = relative_difference(log_probs(folded), log_probs(normed));
  folded.unembed.b_U = Var(Tensor({c.d_vocab}));
  run.finding(identity, "A7", "LayerNorm folds into the weights beside it, up to its scale (which stays)",
              "log-probabilities with gains, biases and centring folded, against those before", norm_residual,
              at_most(1e-4), elhage,
              {{"without the final bias", relative_difference(log_probs(folded), log_probs(normed))}});
}

void batch_norm(Run& run) {
  Rng rng(run.seed(), Stream::analysis, 4);
  const auto random = [&](const Shape& shape) { return random_normal(shape, 1, rng); };
  const Tensor x = random({50, 20}), W = random({20, 30});
  const BatchNorm norm{random({30}), map(random({30}), [](Real v) { return Real(0.5) + std::abs(v); }), random({30}),
                       random({30})};
  const Tensor expected = norm(matmul(x, W));
  Affine folded = fold_batch_norm(W, norm);
  const double residual = relative_difference(folded(x), expected);
  folded.b = norm.bias;
  run.finding(identity, "A8", "BatchNorm (in evaluation) folds completely",
              "one linear map, against linear and BatchNorm", residual, at_most(1e-5), elhage,
              {{"without the mean", relative_difference(folded(x), expected)}});
}

// The last stream, against the sum of the embedding and of what every part has added: all paths, or attention and MLPs.
double stream_residual(const Trace& t, const std::vector<Tensor>& parts) {
  Tensor sum(parts[0].shape());
  for (const Tensor& part : parts) add_into(sum, part);
  return relative_difference(sum, t.probe["blocks.1.resid_post"]);
}

void architecture(Run& run) {
  const RepeatedSegment task;
  run.config = {{"task", to_json(task)}, {"steps", run.options().steps}};
  run.begin();
  Config c;
  c.d_vocab = task.V, c.n_ctx = task.T;
  Rng rng(run.seed(), Stream::eval);
  const Tokens tokens = next_token_batch(task.sample(8, rng)).inputs;
  const auto batches = [&](Rng& data) { return next_token_batch(task.sample(16, data)); };
  Transformer model(c, run.seed());
  const Weights start = weights_of(clone(model));
  train(run, "two_layers", model, batches, {.steps = run.options().steps});
  save_model(run.path("model.safetensors"), model);
  const Trace t = trace(model, tokens);
  heads_are_independent(run, t);
  keys_are_intermediate(run, t);
  no_privileged_basis(run, t, start, task);
  virtual_weights(run, t);
  folding(run, c, tokens);
  batch_norm(run);
  std::vector<Tensor> parts;
  for_each_path(t.w, t.patterns, tokens, 2, [&](const Path&, const Tensor& x) { parts.push_back(x); });
  run.finding(identity, "A9", "the stream is the sum of all that was written to it",
              fmt::format("sum of {} paths, against the stream", parts.size()), stream_residual(t, parts),
              at_most(1e-5), elhage, {{"one path left out", stream_residual(t, {parts.begin(), parts.end() - 1})}});
  c.d_mlp = 4 * c.d_model;
  Transformer with_mlp(c, run.seed());
  const Curve curve = train(run, "with_mlp", with_mlp, batches, {.steps = run.options().steps});
  const Trace m = trace(with_mlp, tokens);
  const auto written = [&](int64_t l, const char* part) { return m.probe["blocks." + std::to_string(l) + part]; };
  parts = {m.probe["embed"], written(1, ".mlp.out"), written(1, ".attn.out"), written(0, ".attn.out"),
           written(0, ".mlp.out")};
  const double without = stream_residual(m, {parts.begin(), parts.end() - 1});
  run.finding(
      identity, "A10", "an MLP enters as one more term of the sum", "sum, against the stream",
      stream_residual(m, parts), at_most(1e-5), elhage,
      {{"without an MLP", without}, {"loss before", curve.front()["loss"]}, {"loss after", curve.back()["loss"]}});
}

}  // namespace

int main(int argc, char** argv) {
  return run_experiment(argc, argv, {"architecture", "Is a transformer a sum of paths?", 300, 50}, nullptr,
                        architecture);
}
