#include "nn/circuits/transform.h"

#include <cmath>

#include "tensor/blas.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

// One tensor below another, [n, c] and [m, c] -> [n + m, c]; and side by side.
Tensor below(const Tensor& a, const Tensor& b) {
  const Shape shape{a.dim(0) + b.dim(0), a.dim(1)};
  return add(pad(a, shape, 0, 0), pad(b, shape, 0, a.dim(0)));
}
Tensor beside(const Tensor& a, const Tensor& b) { return below(a.transpose(), b.transpose()).transpose().contiguous(); }

Tensor row(const Tensor& vector) { return vector.reshape({1, vector.numel()}); }

// x [n, d] minus the mean of each row.
Tensor centred(const Tensor& x) {
  const Tensor mean = scale(sum(x, -1), Real(1) / Real(x.dim(1)));
  return sub(x, mean.reshape({x.dim(0), 1}).expand(x.shape()).contiguous());
}
// Row i of W times gain_i.
Tensor scaled_rows(const Tensor& W, const Tensor& gain) {
  return mul(W, gain.reshape({W.dim(0), 1}).expand(W.shape()).contiguous());
}

// A random invertible matrix and its inverse: rotate, stretch by 0.5 to 1.5, rotate.
struct Invertible {
  Tensor matrix, inverse;
};
Invertible random_invertible(int64_t n, Rng& rng) {
  const Tensor U = random_orthogonal(n, rng), V = random_orthogonal(n, rng);
  Tensor stretch({n}), shrink({n});
  for (int64_t i = 0; i < n; ++i) {
    const double s = 0.5 + rng.uniform();
    stretch.mut()[size_t(i)] = Real(s), shrink.mut()[size_t(i)] = Real(1 / s);
  }
  return {matmul(U, scaled_rows(V, stretch)), matmul(V.transpose(), scaled_rows(U.transpose(), shrink))};
}

}  // namespace

Tensor random_orthogonal(int64_t n, Rng& rng) { return svd(random_normal({n, n}, 1, rng)).U; }

Weights rotate_stream(const Weights& w, const Tensor& O) {
  const Tensor back = O.transpose();
  Weights out = w;
  out.W_E = matmul(w.W_E, O), out.W_U = matmul(back, w.W_U);
  if (w.W_pos) out.W_pos = matmul(*w.W_pos, O);
  for (auto& layer : out.layers)
    for (Head& h : layer) h = {matmul(back, h.W_Q), matmul(back, h.W_K), matmul(back, h.W_V), matmul(h.W_O, O)};
  return out;
}

Weights change_heads(const Weights& w, Rng& rng) {
  Weights out = w;
  for (auto& layer : out.layers)
    for (Head& h : layer) {
      const Invertible R = random_invertible(h.W_Q.dim(1), rng), S = random_invertible(h.W_V.dim(1), rng);
      h = {matmul(h.W_Q, R.matrix), matmul(h.W_K, R.inverse.transpose()), matmul(h.W_V, S.matrix),
           matmul(S.inverse, h.W_O)};
    }
  return out;
}

Weights fold_biases(const Transformer& model) {
  const Config& c = model.config;
  require(c.biases, "fold_biases", "the model has no biases");
  require(!c.layer_norm && c.d_mlp == 0, "fold_biases", "the model has LayerNorm or an MLP");
  const auto ones = [](int64_t n) { return Tensor({n, 1}, 1); };
  const auto zeros = [](int64_t n, int64_t m) { return Tensor({n, m}); };
  const int64_t d = c.d_model, r = c.d_head;
  Weights w;
  w.positions = c.positions;
  w.W_E = beside(model.embed.W_E.value(), ones(c.d_vocab));
  w.W_U = below(model.unembed.W_U.value(), row(model.unembed.b_U->value()));
  if (model.pos_embed) w.W_pos = beside(model.pos_embed->W_pos.value(), zeros(model.pos_embed->W_pos.dim(0), 1));
  for (const Block& block : model.blocks) {
    const Attention& a = block.attn;
    std::vector<Head>& heads = w.layers.emplace_back();
    for (int64_t h = 0; h < c.n_heads; ++h) {
      const auto with_bias = [&](const Var& W, const Var& b) {  // [d + 1, r]
        return below(W.value().narrow(1, h * r, r), row(b.value().narrow(0, h * r, r)));
      };
      // d_head + 1, so scores are divided by its root: queries make up for it.
      const Real rescale = Real(std::sqrt(double(r + 1) / double(r)));
      Tensor reads_one({d + 1, 1});
      if (h == 0) reads_one.mut()[size_t(d)] = 1;
      const Tensor b_O = h == 0 ? row(a.b_O->value()) : zeros(1, d);
      const Tensor W_O = below(a.W_O.value().narrow(0, h * r, r), b_O);  // [r + 1, d]
      heads.push_back({beside(scale(with_bias(a.W_Q, *a.b_Q), rescale), zeros(d + 1, 1)),
                       beside(with_bias(a.W_K, *a.b_K), zeros(d + 1, 1)), beside(with_bias(a.W_V, *a.b_V), reads_one),
                       beside(W_O, zeros(r + 1, 1))});
    }
  }
  return w;
}

Transformer fold_layer_norm(const Transformer& model) {
  Config c = model.config;
  require(c.layer_norm, "fold_layer_norm", "the model has no LayerNorm");
  require(c.d_mlp == 0, "fold_layer_norm", "the model has an MLP");
  require(c.positions != Positions::shortformer, "fold_layer_norm", "shortformer positions come after the LayerNorm");
  c.biases = true;
  Transformer folded(c, 0);
  const auto set = [](Var& v, const Tensor& t) { v = Var::param(t.clone()); };
  set(folded.embed.W_E, centred(model.embed.W_E.value()));
  if (model.pos_embed) set(folded.pos_embed->W_pos, centred(model.pos_embed->W_pos.value()));
  // x gain W + (b W + bias): what follows a LayerNorm with this gain and bias b.
  const auto reads = [&](const LayerNorm& ln, const Var& W, const std::optional<Var>& bias, Var& W_out, Var& b_out) {
    set(W_out, scaled_rows(W.value(), ln.w.value()));
    const Tensor b = matmul(row(ln.b.value()), W.value()).reshape({W.dim(1)});
    set(b_out, bias ? add(b, bias->value()) : b);
  };
  for (size_t l = 0; l < model.blocks.size(); ++l) {
    const Attention& from = model.blocks[l].attn;
    Attention& to = folded.blocks[l].attn;
    const LayerNorm& ln = *model.blocks[l].ln1;
    reads(ln, from.W_Q, from.b_Q, to.W_Q, *to.b_Q);
    reads(ln, from.W_K, from.b_K, to.W_K, *to.b_K);
    reads(ln, from.W_V, from.b_V, to.W_V, *to.b_V);
    set(to.W_O, centred(from.W_O.value()));
    if (from.b_O) set(*to.b_O, centred(row(from.b_O->value())).reshape({c.d_model}));
  }
  reads(*model.ln_final, model.unembed.W_U, model.unembed.b_U, folded.unembed.W_U, *folded.unembed.b_U);
  return folded;
}

Tensor BatchNorm::operator()(const Tensor& y) const {
  const auto rows = [&](const Tensor& v) { return v.expand(y.shape()); };
  return add(mul(div(sub(y, rows(mean)), rows(sd)), rows(gain)), rows(bias));
}

Tensor Affine::operator()(const Tensor& x) const {
  const Tensor y = matmul(x, W);
  return add(y, b.expand(y.shape()));
}

Affine fold_batch_norm(const Tensor& W, const BatchNorm& norm) {
  const Tensor factor = div(norm.gain, norm.sd);
  return {mul(W, factor.expand(W.shape())), sub(norm.bias, mul(norm.mean, factor))};
}

Transformer noisy_model(const Config& c, uint64_t seed, double std) {
  Transformer model(c, seed);
  Rng rng(seed, Stream::analysis);
  for_each_param(model, [&](const std::string&, Var& v) {
    Tensor value = v.value();
    add_into(value, random_normal(value.shape(), std, rng));
  });
  return model;
}

}  // namespace clearhead::inline CLEARHEAD_REAL
