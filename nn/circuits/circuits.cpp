#include "nn/circuits/circuits.h"

#include <cmath>

#include "nn/transformer.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

void check_tensor(const std::string& name, const Tensor& t, const Shape& expected) {
  require(t.defined(), "weights", name, " is missing");
  require(t.shape() == expected, "weights", name, " is ", t.shape(), ", expected ", expected);
  require(all_finite(t), "weights", name, " has a number that is not finite");
}

Null moments(const std::vector<double>& x) {
  double mean = 0, squares = 0;
  for (double v : x) mean += v / double(x.size());
  for (double v : x) squares += (v - mean) * (v - mean) / double(x.size() - 1);
  return {mean, std::sqrt(squares)};
}

Head random_head(int64_t d_model, int64_t d_head, Rng& rng) {
  Head h;
  for (Tensor* W : {&h.W_Q, &h.W_K, &h.W_V}) *W = random_normal({d_model, d_head}, 1, rng);
  h.W_O = random_normal({d_head, d_model}, 1, rng);
  return h;
}

}  // namespace

const char* name(Through t) { return t == Through::queries ? "Q" : t == Through::keys ? "K" : "V"; }

void check(const Weights& w) {
  require(w.W_E.defined() && w.W_E.rank() == 2, "weights", "embed.W_E must be [d_vocab, d_model]");
  const int64_t V = w.V(), d = w.d_model();
  check_tensor("embed.W_E", w.W_E, {V, d});
  check_tensor("unembed.W_U", w.W_U, {d, V});
  if (w.W_pos) check_tensor("pos_embed.W_pos", *w.W_pos, {w.W_pos->dim(0), d});
  for (size_t l = 0; l < w.layers.size(); ++l)
    for (size_t i = 0; i < w.layers[l].size(); ++i) {
      const Head& h = w.layers[l][i];
      const std::string at = "blocks." + std::to_string(l) + ".attn.", of = " of head " + std::to_string(i);
      require(h.W_Q.defined() && h.W_Q.rank() == 2, "weights", at, "W_Q", of, " is missing");
      const int64_t r = h.W_Q.dim(1);
      check_tensor(at + "W_Q" + of, h.W_Q, {d, r});
      check_tensor(at + "W_K" + of, h.W_K, {d, r});
      check_tensor(at + "W_V" + of, h.W_V, {d, h.W_V.dim(-1)});
      check_tensor(at + "W_O" + of, h.W_O, {h.W_V.dim(1), d});
    }
}

Weights weights_of(const Transformer& model) {
  const Config& c = model.config;
  require(c.d_mlp == 0, "circuits", "the model has an MLP; its paths are not a product of weights");
  require(!c.layer_norm, "circuits", "the model has LayerNorm; fold it first, up to its scale (circuits/transform.h)");
  require(!c.smeared_keys, "circuits", "the model has smeared keys, which are no product of its weights");
  require(!c.biases, "circuits", "the model has biases; fold them first (circuits/transform.h)");
  Weights w;
  w.positions = c.positions;
  w.W_E = model.embed.W_E.value(), w.W_U = model.unembed.W_U.value();
  if (model.pos_embed) w.W_pos = model.pos_embed->W_pos.value();
  for (const Block& block : model.blocks) {
    std::vector<Head>& heads = w.layers.emplace_back();
    const Attention& a = block.attn;
    for (int64_t h = 0; h < c.n_heads; ++h) {
      const auto columns = [&](const Var& W) { return W.value().narrow(1, h * c.d_head, c.d_head); };
      heads.push_back(
          {columns(a.W_Q), columns(a.W_K), columns(a.W_V), a.W_O.value().narrow(0, h * c.d_head, c.d_head)});
    }
  }
  check(w);
  return w;
}

Transformer model_of(const Weights& w) {
  check(w);
  Config c;
  c.d_vocab = w.V(), c.d_model = w.d_model(), c.n_layers = int64_t(w.layers.size());
  c.positions = w.W_pos ? w.positions : Positions::none;
  c.n_ctx = w.W_pos ? w.W_pos->dim(0) : int64_t(1) << 20;  // without positions there is no longest sequence
  if (!w.layers.empty()) c.n_heads = int64_t(w.layers[0].size()), c.d_head = w.layers[0].at(0).W_Q.dim(1);
  Transformer model(c, 0);
  const auto set = [](Var& v, const Tensor& t) { v = Var::param(t.clone()); };
  set(model.embed.W_E, w.W_E), set(model.unembed.W_U, w.W_U);
  if (w.W_pos) model.pos_embed->W_pos = Var(w.W_pos->clone());
  for (size_t l = 0; l < w.layers.size(); ++l) {
    require(int64_t(w.layers[l].size()) == c.n_heads, "weights", "all layers must have as many heads");
    const auto joined = [&](Tensor Head::*W, const Shape& shape, int axis) {
      Tensor all(shape);
      for (size_t i = 0; i < w.layers[l].size(); ++i)
        add_into(all, pad(w.layers[l][i].*W, shape, axis, int64_t(i) * c.d_head));
      return Var::param(all);
    };
    Attention& a = model.blocks[l].attn;
    const int64_t width = c.n_heads * c.d_head;
    a.W_Q = joined(&Head::W_Q, {c.d_model, width}, 1), a.W_K = joined(&Head::W_K, {c.d_model, width}, 1);
    a.W_V = joined(&Head::W_V, {c.d_model, width}, 1), a.W_O = joined(&Head::W_O, {width, c.d_model}, 0);
  }
  return model;
}

Factored qk(const Head& h) { return {scale(h.W_Q, Real(1 / std::sqrt(double(h.W_Q.dim(1))))), h.W_K.transpose()}; }
Factored ov(const Head& h) { return {h.W_V, h.W_O}; }
Factored token_qk(const Weights& w, const Head& h) { return w.W_E * qk(h) * w.W_E.transpose(); }
Factored token_ov(const Weights& w, const Head& h) { return w.W_E * ov(h) * w.W_U; }
Factored position_qk(const Weights& w, const Head& h) {
  require(w.W_pos.has_value(), "circuits", "the model has no positions");
  return *w.W_pos * qk(h) * w.W_pos->transpose();
}
Factored direct_path(const Weights& w) { return {w.W_E, w.W_U}; }

double copying_score(const Factored& square) {
  double real = 0, modulus = 0;
  for (const auto& l : square.eigenvalues()) real += l.real(), modulus += std::abs(l);
  return modulus > 0 ? real / modulus : 0;
}
double copying_score(const Sum& square) { return copying_score(joined(square)); }

Null copying_null(const Weights& w, int64_t d_head, int samples, Rng& rng) {
  require(samples >= 2, "copying_null", "needs at least two samples, got ", samples);
  const Tensor between = matmul(w.W_U, w.W_E);  // [d, d]: eigenvalues of W_E OV W_U are those of OV W_U W_E
  std::vector<double> scores;
  for (int i = 0; i < samples; ++i)
    scores.push_back(copying_score(ov(random_head(w.d_model(), d_head, rng)) * between));
  return moments(scores);
}

Copying copying(const Factored& t) {
  const int64_t V = t.rows();
  double first = 0, z = 0;
  for (int64_t begin = 0; begin < V; begin += 256) {
    const int64_t n = std::min<int64_t>(256, V - begin);
    const Tensor block = matmul(t.A.narrow(0, begin, n), t.B);
    for (int64_t i = 0; i < n; ++i) {
      const Real* const row = block.data() + i * V;
      const double own = double(row[begin + i]);
      double sum = 0, squares = 0;
      bool beaten = false;
      for (int64_t j = 0; j < V; ++j) {
        sum += double(row[j]), squares += double(row[j]) * double(row[j]);
        beaten |= j != begin + i && double(row[j]) >= own;
      }
      const double mean = sum / double(V), sd = std::sqrt(std::max(0., squares / double(V) - mean * mean));
      first += !beaten, z += sd > 0 ? (own - mean) / sd : 0;
    }
  }
  return {copying_score(t), first / double(V), z / double(V)};
}

Factored composed(Through through, const Head& first, const Head& second) {
  switch (through) {
    case Through::queries:
      return ov(first) * qk(second);
    case Through::keys:
      return qk(second) * ov(first).transpose();
    case Through::values:
      break;
  }
  return ov(first) * ov(second);
}

double composition(Through through, const Head& first, const Head& second) {
  const double reads = (through == Through::values ? ov(second) : qk(second)).norm(), writes = ov(first).norm();
  return reads > 0 && writes > 0 ? composed(through, first, second).norm() / (reads * writes) : 0;
}

Sum matching(const Weights& w, const std::vector<double>& previous_token_scores, const Head& second) {
  require(!w.layers.empty() && previous_token_scores.size() == w.layers[0].size(), "matching", "there are ",
          previous_token_scores.size(), " scores, not one for each head of layer 0");
  Sum sum;
  for (size_t h = 0; h < w.layers[0].size(); ++h) {
    Factored term = w.W_E * composed(Through::keys, w.layers[0][h], second) * w.W_E.transpose();
    term.A = scale(term.A, Real(previous_token_scores[h]));
    sum.push_back(term);
  }
  return sum;
}

Null composition_null(int64_t d_model, int64_t d_head_1, int64_t d_head_2, Through through, int samples, Rng& rng) {
  require(samples >= 2, "composition_null", "needs at least two samples, got ", samples);
  std::vector<double> scores;
  for (int i = 0; i < samples; ++i)
    scores.push_back(composition(through, random_head(d_model, d_head_1, rng), random_head(d_model, d_head_2, rng)));
  return moments(scores);
}

Null matching_null(const Weights& w, const std::vector<double>& previous_token_scores, int64_t d_head, int samples,
                   Rng& rng) {
  require(samples >= 2, "matching_null", "needs at least two samples, got ", samples);
  std::vector<double> scores;
  for (int i = 0; i < samples; ++i)
    scores.push_back(copying_score(matching(w, previous_token_scores, random_head(w.d_model(), d_head, rng))));
  return moments(scores);
}

}  // namespace clearhead::inline CLEARHEAD_REAL
