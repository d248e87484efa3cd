#include "nn/circuits/paths.h"

#include "tensor/blas.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

void check_patterns(const Weights& w, const Patterns& patterns, const Tokens& tokens) {
  require(patterns.size() == w.layers.size(), "paths", "there are patterns of ", patterns.size(), " layers, and ",
          w.layers.size(), " layers");
  for (size_t l = 0; l < patterns.size(); ++l) {
    const Shape expected{tokens.B, int64_t(w.layers[l].size()), tokens.T, tokens.T};
    require(patterns[l].shape() == expected, "paths", "the pattern of layer ", l, " is ", patterns[l].shape(),
            ", expected ", expected);
  }
}

Tensor pattern_of(const Patterns& p, const HeadId& id) { return p[size_t(id.layer)].select(1, id.head); }

// Calls f(id) for the heads of one layer.
template <class F>
void each_head(const Weights& w, int64_t layer, F f) {
  for (int64_t h = 0; h < int64_t(w.layers[size_t(layer)].size()); ++h) f(HeadId{layer, h});
}

struct Walk {
  const Weights& w;
  const Patterns& patterns;
  int64_t max_order;
  const std::function<void(const Path&, const Tensor&)>& f;
  Path path;

  // Recursion is as deep as the model has layers.
  void from(int64_t layer, const Tensor& x) {
    f(path, x);
    if (int64_t(path.size()) == max_order) return;
    for (; layer < int64_t(w.layers.size()); ++layer)
      each_head(w, layer, [&](const HeadId& id) {
        path.push_back(id);
        from(layer + 1, moved(at(w, id), pattern_of(patterns, id), x));
        path.pop_back();
      });
  }
};

}  // namespace

std::string to_string(const HeadId& h) { return "L" + std::to_string(h.layer) + "H" + std::to_string(h.head); }

const Head& at(const Weights& w, const HeadId& id) {
  require(id.layer >= 0 && id.layer < int64_t(w.layers.size()) && id.head >= 0 &&
              id.head < int64_t(w.layers[size_t(id.layer)].size()),
          "circuits", "there is no head ", to_string(id));
  return w.layers[size_t(id.layer)][size_t(id.head)];
}

std::string to_string(const Path& p) {
  std::string text;
  for (const HeadId& h : p) text += (text.empty() ? "" : " > ") + to_string(h);
  return text.empty() ? "direct" : text;
}

Tensor embedded(const Weights& w, const Tokens& tokens) {
  const int64_t d = w.d_model();
  const Tensor W_E = w.W_E.contiguous();
  Tensor x = Tensor::empty({tokens.B, tokens.T, d});
  Real* const out = x.mut().data();
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    require(tokens.ids[i] >= 0 && tokens.ids[i] < w.V(), "paths", "token ", tokens.ids[i],
            " is outside the vocabulary 0..", w.V() - 1);
    std::copy_n(W_E.data() + tokens.ids[i] * d, d, out + int64_t(i) * d);
  }
  if (w.W_pos && w.positions != Positions::shortformer)
    add_into(x, w.W_pos->narrow(0, 0, tokens.T).expand(x.shape()).contiguous());
  return x;
}

Tensor positions_for_keys(const Weights& w, int64_t B, int64_t T) {
  const Shape shape{B, T, w.d_model()};
  if (!w.W_pos || w.positions != Positions::shortformer) return Tensor(shape);
  return w.W_pos->narrow(0, 0, T).expand(shape).contiguous();
}

Tensor moved(const Head& h, const Tensor& pattern, const Tensor& x) {
  return matmul(matmul(pattern, matmul(x, h.W_V)), h.W_O);
}

Tensor virtual_pattern(const Tensor& first, const Tensor& second) { return matmul(second, first); }

void for_each_path(const Weights& w, const Patterns& patterns, const Tokens& tokens, int64_t max_order,
                   const std::function<void(const Path&, const Tensor&)>& f) {
  check_patterns(w, patterns, tokens);
  Walk{w, patterns, max_order, f, {}}.from(0, embedded(w, tokens));
}

std::vector<Tensor> streams_by_order(const Weights& w, const Patterns& patterns, const Tokens& tokens,
                                     const std::function<bool(const HeadId&)>& use) {
  check_patterns(w, patterns, tokens);
  std::vector<Tensor> stream{embedded(w, tokens)};
  for (int64_t layer = 0; layer < int64_t(w.layers.size()); ++layer) {
    stream.push_back(Tensor(stream[0].shape()));
    for (size_t k = stream.size() - 1; k > 0; --k)  // from above: stream[k-1] is still that of the layer before
      each_head(w, layer, [&](const HeadId& id) {
        if (!use || use(id)) add_into(stream[k], moved(at(w, id), pattern_of(patterns, id), stream[k - 1]));
      });
  }
  return stream;
}

Tensor ScoreParts::total() const { return add(add(direct, queries), add(keys, both)); }

ScoreParts score_parts(const Weights& w, const Patterns& patterns, const Tokens& tokens, const HeadId& id) {
  check_patterns(w, patterns, tokens);
  const Factored circuit = qk(at(w, id));
  const Tensor x = embedded(w, tokens);
  Tensor stream = x.clone();
  for (int64_t layer = 0; layer < id.layer; ++layer) {
    const Tensor before = stream.clone();
    each_head(w, layer, [&](const HeadId& h) { add_into(stream, moved(at(w, h), pattern_of(patterns, h), before)); });
  }
  const Tensor own = add(x, positions_for_keys(w, tokens.B, tokens.T)), written = sub(stream, x);
  const auto score = [&](const Tensor& q, const Tensor& k) {
    return matmul(matmul(q, circuit.A), matmul(k, circuit.B.transpose()).transpose());
  };
  return {score(own, own), score(written, own), score(own, written), score(written, written)};
}

}  // namespace clearhead::inline CLEARHEAD_REAL
