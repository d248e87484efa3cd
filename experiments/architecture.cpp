// Question   Is a transformer what "A Mathematical Framework for Transformer Circuits" says it is: a stream that heads
//            read and add to, one by one, and that one can take apart into paths?
// Model      2 layers of 4 heads, trained a little on the repeated-segment task, so that no weight is special.
// Findings   A1-A10: identities. Each compares two computations of the same thing; its control makes one mistake.
// Source     Elhage et al. 2021, "Transformer overview".
#include <fmt/core.h>

#include <cmath>

#include "experiments/common/measures.h"
#include "experiments/common/tasks.h"
#include "nn/circuits/fold.h"
#include "nn/circuits/paths.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"

using namespace clearhead;

namespace {

const std::string elhage = "Elhage et al. 2021";

double difference(const Tensor& a, const Tensor& b) {  // relative to the largest number of b
  return max_abs_diff(a, b) / max_abs_diff(b, Tensor(b.shape()));
}

Tensor orthogonal(int64_t n, Rng& rng) { return svd(random_normal({n, n}, 1, rng)).U; }
Tensor diagonal(int64_t n, Rng& rng, Tensor& inverse) {
  Tensor D({n, n});
  inverse = Tensor({n, n});
  for (int64_t i = 0; i < n; ++i) {
    const double x = 0.5 + rng.uniform();
    D.mut()[size_t(i * n + i)] = Real(x), inverse.mut()[size_t(i * n + i)] = Real(1 / x);
  }
  return D;
}

Tensor logits(const Weights& w, const Tokens& tokens) {
  const NoGrad no_grad;
  return model_of(w).logits(tokens).value();
}

struct Trained {
  Transformer model;
  Tokens tokens;
  Weights w;
  Patterns patterns;
  Probe probe;  // everything that happened
  Tensor logits;
};

Trained look_at(Transformer model, const Tokens& tokens) {
  Trained t{model, tokens, {}, {}, {}, {}};
  t.probe.capture("*");
  const NoGrad no_grad;
  t.logits = model.logits(tokens, t.probe).value();
  for (size_t l = 0; l < model.blocks.size(); ++l)
    t.patterns.push_back(t.probe["blocks." + std::to_string(l) + ".attn.pattern"]);
  if (model.config.d_mlp == 0) t.w = weights_of(model);
  return t;
}

void heads_are_independent(Run& run, const Trained& t) {
  const Tensor x = embedded(t.w, t.tokens);
  Tensor sum(x.shape()), without(x.shape());
  for (size_t h = 0; h < t.w.layers[0].size(); ++h) {
    const Tensor out = moved(t.w.layers[0][h], t.patterns[0].select(1, int64_t(h)), x);
    add_into(sum, out);
    if (h > 0) add_into(without, out);
  }
  const Tensor& all = t.probe["blocks.0.attn.out"];
  run.finding(identity, "A1", "heads are independent, and add up", "sum over heads of A x W_V W_O, against all at once",
              difference(sum, all), at_most(1e-5), elhage, {{"one head left out", difference(without, all)}});

  Rng rng(run.seed(), Stream::analysis);
  const Tensor y = random_normal(x.shape(), 1, rng), pattern = t.patterns[1].select(1, 0);
  const Head& head = t.w.layers[1][0];
  const Tensor together = moved(head, pattern, add(scale(x, 2), scale(y, -3)));
  const Tensor apart = add(scale(moved(head, pattern, x), 2), scale(moved(head, pattern, y), -3));
  const Tensor A_other = causal_softmax(random_normal(pattern.shape(), 1, rng));
  run.finding(identity, "A2", "with its pattern fixed, a head is linear", "head(2x - 3y), against 2 head(x) - 3 head(y)",
              difference(together, apart), at_most(1e-5), elhage,
              {{"another pattern", difference(moved(head, A_other, x), moved(head, pattern, x))}});
}

// W_Q R, W_K R^-T, W_V S, S^-1 W_O for random R and S: only the products QK and OV matter.
void keys_are_intermediate(Run& run, const Trained& t) {
  Rng rng(run.seed(), Stream::analysis, 1);
  Weights w = t.w, wrong = t.w;
  for (size_t l = 0; l < w.layers.size(); ++l)
    for (size_t i = 0; i < w.layers[l].size(); ++i) {
      Head& h = w.layers[l][i];
      const int64_t r = h.W_Q.dim(1);
      Tensor inverse_R, inverse_S;
      const Tensor O = orthogonal(r, rng), R = matmul(O, diagonal(r, rng, inverse_R));
      const Tensor P = orthogonal(r, rng), S = matmul(P, diagonal(r, rng, inverse_S));
      h = {matmul(h.W_Q, R), matmul(h.W_K, matmul(O, inverse_R)), matmul(h.W_V, S),
           matmul(matmul(inverse_S, P.transpose()), h.W_O)};
      wrong.layers[l][i].W_Q = h.W_Q;
    }
  run.finding(identity, "A3", "queries, keys and values are only intermediate results",
              "logits with W_Q R, W_K R^-T, W_V S, S^-1 W_O, against those without",
              difference(logits(w, t.tokens), t.logits), at_most(1e-4), elhage,
              {{"W_Q R alone", difference(logits(wrong, t.tokens), t.logits)}});
}

Weights rotated(const Weights& w, const Tensor& O) {  // x -> x O in the stream
  Weights out = w;
  out.W_E = matmul(w.W_E, O), out.W_U = matmul(O.transpose(), w.W_U);
  if (w.W_pos) out.W_pos = matmul(*w.W_pos, O);
  for (auto& layer : out.layers)
    for (Head& h : layer)
      h = {matmul(O.transpose(), h.W_Q), matmul(O.transpose(), h.W_K), matmul(O.transpose(), h.W_V), matmul(h.W_O, O)};
  return out;
}

// The loss after some steps from these weights.
template <class Optimizer>
double trained_loss(const Weights& start, const RepeatedSegment& task, uint64_t seed, double lr) {
  Transformer model = model_of(start);
  const auto list = params(model);
  Optimizer optimizer(list);
  double last = 0;
  for (uint64_t step = 0; step < 30; ++step) {
    Rng rng(seed, Stream::data, step);
    const Batch batch = next_token_batch(task.sample(16, rng));
    const Var loss = model.loss(batch.inputs, batch.targets);
    backward(loss);
    optimizer.step(lr);
    last = loss.value().item();
  }
  return last;
}

void no_privileged_basis(Run& run, const Trained& t, const Weights& start, const RepeatedSegment& task) {
  Rng rng(run.seed(), Stream::analysis, 2);
  const Tensor O = orthogonal(t.w.d_model(), rng);
  Weights wrong = rotated(t.w, O);
  wrong.W_U = t.w.W_U;
  run.finding(identity, "A4", "the stream has no privileged basis", "logits with the stream rotated, against those without",
              difference(logits(rotated(t.w, O), t.tokens), t.logits), at_most(1e-4), elhage,
              {{"W_U not rotated", difference(logits(wrong, t.tokens), t.logits)}});
  const auto change = [&]<class Optimizer>(double lr) {
    return std::abs(trained_loss<Optimizer>(rotated(start, O), task, run.seed(), lr) -
                    trained_loss<Optimizer>(start, task, run.seed(), lr));
  };
  const double adam = change.template operator()<AdamW>(3e-3), sgd = change.template operator()<Sgd>(0.1);
  run.finding(identity, "A4", "to gradient descent neither", "loss after 30 steps of SGD from rotated weights, difference",
              sgd, at_most(1e-3), "control");
  run.finding(empirical, "A4", "but to Adam it has: it scales every coordinate by itself",
              "loss after 30 steps of AdamW from rotated weights, difference / that of SGD", adam / std::max(sgd, 1e-7),
              at_least(10), "control", {{"AdamW, nats", adam}, {"SGD, nats", sgd}});
}

// Layer 1's queries, keys and values of what a head of layer 0 wrote, through the product of their weights.
void virtual_weights(Run& run, const Trained& t) {
  const Head &first = t.w.layers[0][1], &second = t.w.layers[1][2];
  const Tensor x = embedded(t.w, t.tokens), pattern = t.patterns[0].select(1, 1), wrote = moved(first, pattern, x);
  double worst = 0;
  for (const Tensor& W_in : {second.W_Q, second.W_K, second.W_V}) {
    const Tensor weights = matmul(first.W_O, W_in);  // [d_head, d_head]
    worst = std::max(worst, difference(matmul(matmul(pattern, matmul(x, first.W_V)), weights), matmul(wrote, W_in)));
  }
  const Tensor transposed = matmul(second.W_Q.transpose(), first.W_O.transpose());
  run.finding(identity, "A5", "virtual weights W_O W_in connect a head to every later one",
              "what layer 1 reads of a head of layer 0, through virtual weights, against through the stream", worst,
              at_most(1e-5), elhage,
              {{"in the wrong order",
                difference(matmul(matmul(pattern, matmul(x, first.W_V)), transposed), matmul(wrote, second.W_Q))}});
}

Transformer disturbed(const Config& c, uint64_t seed) {  // also biases and gains, which start as 0 and 1
  Transformer model(c, seed);
  Rng rng(seed, Stream::analysis, 3);
  for_each_param(model, [&](const std::string&, Var& v) {
    Tensor value = v.value();
    add_into(value, random_normal(value.shape(), 0.2, rng));
  });
  return model;
}

void folding(Run& run, const Config& base, const Tokens& tokens) {
  const NoGrad no_grad;
  Config c = base;
  c.biases = true;
  const Transformer biased = disturbed(c, run.seed());
  Weights w = fold_biases(biased);
  const Tensor expected = biased.logits(tokens).value();
  const double residual = difference(logits(w, tokens), expected);
  w.W_U = w.W_U.clone();
  std::ranges::fill(w.W_U.mut().subspan(size_t(c.d_model * c.d_vocab)), Real(0));  // the row that reads the 1
  run.finding(identity, "A6", "biases are weights from one more dimension that is always 1",
              "logits of the model without biases, d_model + 1, against those with", residual, at_most(1e-4), elhage,
              {{"without b_U", difference(logits(w, tokens), expected)}});
  c.biases = false, c.layer_norm = true, c.positions = Positions::learned;
  const Transformer normed = disturbed(c, run.seed());
  Transformer folded = fold_layer_norm(normed);
  const auto log_probs = [&](const Transformer& m) { return log_softmax(m.logits(tokens).value()); };
  const double norm_residual = difference(log_probs(folded), log_probs(normed));
  folded.unembed.b_U = Var(Tensor({c.d_vocab}));
  run.finding(identity, "A7", "LayerNorm folds into the weights beside it, up to its scale (which stays)",
              "log-probabilities with gains, biases and centring folded, against those before", norm_residual,
              at_most(1e-4), elhage, {{"without the final bias", difference(log_probs(folded), log_probs(normed))}});

  // BatchNorm after a linear map, with the statistics that it keeps for evaluation: (x W - mean) / sd * gain + bias.
  Rng rng(run.seed(), Stream::analysis, 4);
  const Tensor x = random_normal({50, 20}, 1, rng), W = random_normal({20, 30}, 1, rng);
  const Shape shape{50, 30};
  const auto rows = [&](const Tensor& v) { return v.reshape({1, 30}).expand(shape).contiguous(); };
  const Tensor mean = random_normal({30}, 1, rng), gain = random_normal({30}, 1, rng), bias = random_normal({30}, 1, rng);
  const Tensor inverse_sd = map(random_normal({30}, 1, rng), [](Real v) { return 1 / (Real(0.5) + std::abs(v)); });
  const Tensor factor = mul(inverse_sd, gain);
  const Tensor norm = add(mul(mul(sub(matmul(x, W), rows(mean)), rows(inverse_sd)), rows(gain)), rows(bias));
  const Tensor folded_W = mul(W, factor.reshape({1, 30}).expand(W.shape()).contiguous());
  const Tensor one = add(matmul(x, folded_W), rows(sub(bias, mul(mean, factor))));
  run.finding(identity, "A8", "BatchNorm (in evaluation) folds completely", "one linear map, against linear and BatchNorm",
              difference(one, norm), at_most(1e-5), elhage,
              {{"without the mean", difference(add(matmul(x, folded_W), rows(bias)), norm)}});
}

// The stream after every layer, against the embedding and all that heads (and MLPs) have added so far.
double stream_residual(const Trained& t, bool with_last) {
  Tensor sum = t.probe["embed"].clone();
  double worst = 0;
  for (size_t l = 0; l < t.model.blocks.size(); ++l) {
    const std::string at = "blocks." + std::to_string(l);
    add_into(sum, t.probe[at + ".attn.out"]);
    if (t.model.blocks[l].mlp && with_last) add_into(sum, t.probe[at + ".mlp.out"]);
    if (!t.model.blocks[l].mlp && !with_last) sum = t.probe["embed"].clone();
    worst = std::max(worst, difference(sum, t.probe[at + ".resid_post"]));
  }
  return worst;
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
  const TrainOptions options{.steps = run.options().steps};
  Transformer model(c, run.seed());
  const Weights start = weights_of(clone(model));
  train(run, "two_layers", model, batches, options);
  save_model(run.path("model.safetensors"), model);
  const Trained t = look_at(model, tokens);
  heads_are_independent(run, t);
  keys_are_intermediate(run, t);
  no_privileged_basis(run, t, start, task);
  virtual_weights(run, t);
  folding(run, c, tokens);
  run.finding(identity, "A9", "the stream is the sum of the embedding and of every head's output",
              "sum, against the stream, after every layer", stream_residual(t, true), at_most(1e-5), elhage,
              {{"without the heads of a layer", stream_residual(t, false)}});
  c.d_mlp = 4 * c.d_model;
  Transformer with_mlp(c, run.seed());
  const Curve curve = train(run, "with_mlp", with_mlp, batches, options);
  const Trained m = look_at(with_mlp, tokens);
  run.finding(identity, "A10", "an MLP enters as one more term of the sum", "sum, against the stream, after every layer",
              stream_residual(m, true), at_most(1e-5), elhage,
              {{"without the MLPs", stream_residual(m, false)}, {"loss before", curve.front()["loss"]}, {"loss after", curve.back()["loss"]}});
}

}  // namespace

int main(int argc, char** argv) {
  return run_experiment(argc, argv, {"architecture", "Is a transformer a sum of paths?", 300, 50}, nullptr, architecture);
}
