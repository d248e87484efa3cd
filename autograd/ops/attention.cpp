// Causal self-attention, for H heads at once. For one head, with q, k, v [T, d_head]:
//
//     S = q k^T / sqrt(d_head)      scores: how much destination i (row) wants source j (column)
//     A = softmax(S) over j <= i    the pattern: row i is a distribution over what came before
//     z = A v                       what is moved from the sources to the destination
//
// Pullback, from dz:   dv = A^T dz,   dA = dz v^T,   dS = A * (dA - D) with D_i = sum_j A_ij dA_ij,
//                      dq = dS k / sqrt(d_head),   dk = dS^T q / sqrt(d_head).
#include <cmath>

#include "autograd/op_spec.h"
#include "autograd/ops.h"
#include "tensor/blas.h"
#include "tensor/hot.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {

Var split_heads(const Var& x, int64_t n_heads) {
  require(x.value().rank() == 3 && n_heads >= 1 && x.dim(-1) % n_heads == 0, "split_heads",
          "x must be [B, T, n_heads * d_head], got ", x.shape(), " for ", n_heads, " heads");
  return permute(reshape(x, {x.dim(0), x.dim(1), n_heads, x.dim(2) / n_heads}), {0, 2, 1, 3});
}
Var merge_heads(const Var& x) { return reshape(permute(x, {0, 2, 1, 3}), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)}); }
Var attention_scores(const Var& q, const Var& k, int64_t n_heads) {
  const Var Q = split_heads(q, n_heads);
  return scale(matmul(Q, transpose(split_heads(k, n_heads))), Real(1 / std::sqrt(double(Q.dim(-1)))));
}

// The definition. Every step is an op with its own gradient; scores and pattern [B, H, T, T] stay in the graph.
Var attention(const Var& q, const Var& k, const Var& v, int64_t n_heads) {
  const Var pattern = causal_softmax(attention_scores(q, k, n_heads));
  return merge_heads(matmul(pattern, split_heads(v, n_heads)));
}

// The same as one node, for each sequence and head by blocks of destinations, which are scored against the sources up
// to the block's end and never against later ones. Only each destination's maximum and sum are saved: with them, the
// backward pass recomputes the pattern block by block. Memory O(T) per head instead of O(T^2), and a block stays in
// cache.
//
// A block is stored with its destinations side by side, S^T [sources, panel]: sums over sources then add whole vectors,
// and of all factors below, only the block's queries and dz must be transposed.
namespace {

constexpr int64_t panel = hot::panel, tile = 8;

// How heads lie in [B, T, n_heads * width]: the rows of one are n_heads * width apart. Where a head is more than the
// first-level cache holds, that costs more than to work on a copy [T, width]: rows that far apart compete for few
// places in the cache.
struct Heads {
  int64_t T, n_heads, width;

  bool copied() const { return T * width > 8192; }
  int64_t ld() const { return copied() ? width : n_heads * width; }
  int64_t offset(int64_t head) const { return (head / n_heads * T * n_heads + head % n_heads) * width; }
  int64_t space() const { return copied() ? T * width : 0; }
  const Real* read(const Tensor& x, int64_t head, Real* copy) const {
    const Real* const from = x.data() + offset(head);
    if (copied()) hot::copy(from, n_heads * width, T, width, copy, width);
    return copied() ? copy : from;
  }
  Real* target(Real* out, int64_t head, Real* copy) const { return copied() ? copy : out + offset(head); }
  void write(const Real* x, int64_t head, Real* out) const {
    if (copied()) hot::copy(x, width, T, width, out + offset(head), n_heads * width);
  }
};

// A block of n destinations first, first + 1, ... of one head, whose tensors are [T, width] with rows ld apart.
struct Block {
  int64_t first, n, width, ld;

  // out [first + n, panel] = factor * sources destinations^T. The block's later sources are seen by its later
  // destinations only; where none sees a source, out is left as it is.
  void compare(const Real* sources, const Real* destinations, Real factor, Real* transposed, Real* out) const {
    if (n < panel) std::fill_n(transposed, width * panel, Real(0));
    hot::transpose(destinations + first * ld, ld, n, width, transposed, panel);
    constexpr int64_t half = panel / 2;
    const int64_t for_all = first + std::min(n, half), for_half = first + n - for_all;
    gemm(for_all, panel, width, factor, {sources, ld}, {transposed, panel}, 0, out, panel);
    gemm(for_half, half, width, factor, {sources + for_all * ld, ld}, {transposed + half, panel}, 0,
         out + for_all * panel + half, panel);
  }
  // Destinations collect from the sources that they see: out = A sources
  void collect(const Real* A, const Real* sources, Real* out) const {
    for (int64_t i = 0; i < n; i += tile)
      gemm(std::min(tile, n - i), width, std::min(first + i + tile, first + n), 1, {A + i, panel, true}, {sources, ld},
           0, out + (first + i) * ld, ld);
  }
  // Sources collect from the destinations that see them: out = A^T destinations, or added to out
  void collect_back(const Real* A, const Real* destinations, Real add, Real* out) const {
    gemm(first, width, n, 1, {A, panel}, {destinations + first * ld, ld}, add, out, ld);
    for (int64_t i = 0; i < n; i += tile) {
      const int64_t row = first + i;
      gemm(std::min(tile, n - i), width, n - i, 1, {A + row * panel + i, panel}, {destinations + row * ld, ld}, add,
           out + row * ld, ld);
    }
  }
};

}  // namespace

// q, k, v [B, T, H * d_head] -> z.  Saves q, k, v, and two numbers for each row.
Var attention_fused(const Var& q_var, const Var& k_var, const Var& v_var, int64_t n_heads) {
  const Shape shape = q_var.shape();
  require(shape.rank() == 3 && n_heads >= 1 && shape[2] % n_heads == 0, "attention",
          "q must be [B, T, n_heads * d_head], got ", shape, " for ", n_heads, " heads");
  require(k_var.shape() == shape && v_var.shape() == shape, "attention", "q, k and v differ: ", shape, ", ",
          k_var.shape(), ", ", v_var.shape());
  const int64_t B = shape[0], T = shape[1], width = shape[2] / n_heads, padded = (T + panel - 1) / panel * panel;
  const Heads heads{T, n_heads, width};
  const int64_t ld = heads.ld(), space = heads.space();
  const Real scale = Real(1 / std::sqrt(double(width)));
  const Tensor q = q_var.value().contiguous(), k = k_var.value().contiguous(), v = v_var.value().contiguous();
  Tensor z = Tensor::empty(shape), most = Tensor::empty({B, n_heads, padded}), inverse = Tensor::empty(most.shape());
  Real *const z_out = z.mut().data(), *const most_out = most.mut().data(), *const inverse_out = inverse.mut().data();

  parallel_for(B * n_heads, 1, [&](int64_t begin, int64_t end) {
    Tensor scratch = Tensor::empty({4 * space + (width + padded) * panel});
    Real *const copies = scratch.mut().data(), *const q_t = copies + 4 * space, *const S = q_t + width * panel;
    for (int64_t i = begin; i < end; ++i) {
      const Real* const Q = heads.read(q, i, copies);
      const Real* const K = heads.read(k, i, copies + space);
      const Real* const V = heads.read(v, i, copies + 2 * space);
      Real* const Z = heads.target(z_out, i, copies + 3 * space);
      for (int64_t first = 0; first < T; first += panel) {
        const Block block{first, std::min(panel, T - first), width, ld};
        Real* const inv = inverse_out + i * padded + first;
        block.compare(K, Q, scale, q_t, S);
        hot::attention_columns(S, first, most_out + i * padded + first, inv);
        block.collect(S, V, Z);
        for (int64_t t = 0; t < block.n; ++t) hot::scale(Z + (first + t) * ld, inv[t], width);
      }
      heads.write(Z, i, z_out);
    }
  });

  return record("attention_fused", z, {q_var, k_var, v_var}, [=](const Tensor& dz_any, Adjoints& d) {
    const Tensor dz = dz_any.contiguous();
    Tensor dq = Tensor::empty(shape), dk = Tensor::empty(shape), dv = Tensor::empty(shape);
    Real *const dq_out = dq.mut().data(), *const dk_out = dk.mut().data(), *const dv_out = dv.mut().data();
    parallel_for(B * n_heads, 1, [&](int64_t begin, int64_t end) {
      Tensor scratch = Tensor::empty({7 * space + 2 * (width + padded) * panel});
      Real *const copies = scratch.mut().data(), *const q_t = copies + 7 * space, *const dz_t = q_t + width * panel;
      Real *const A = dz_t + width * panel, *const dS = A + padded * panel;
      for (int64_t i = begin; i < end; ++i) {
        const Real* const Q = heads.read(q, i, copies);
        const Real* const K = heads.read(k, i, copies + space);
        const Real* const V = heads.read(v, i, copies + 2 * space);
        const Real* const dZ = heads.read(dz, i, copies + 3 * space);
        Real* const dQ = heads.target(dq_out, i, copies + 4 * space);
        Real* const dK = heads.target(dk_out, i, copies + 5 * space);
        Real* const dV = heads.target(dv_out, i, copies + 6 * space);
        // From the last block to the first: the last reaches every source, so it sets dK and dV, and the others add.
        for (int64_t first = padded - panel; first >= 0; first -= panel) {
          const Block block{first, std::min(panel, T - first), width, ld};
          const Real add = first + panel < padded;
          block.compare(K, Q, scale, q_t, A);
          block.compare(V, dZ, 1, dz_t, dS);  // dA, soon dS
          hot::attention_columns_pullback(A, dS, first, most.data() + i * padded + first,
                                          inverse.data() + i * padded + first, scale);
          block.collect_back(A, dZ, add, dV);
          block.collect(dS, K, dQ);
          block.collect_back(dS, Q, add, dK);
        }
        heads.write(dQ, i, dq_out);
        heads.write(dK, i, dk_out);
        heads.write(dV, i, dv_out);
      }
    });
    d.add(0, [&] { return std::move(dq); });
    d.add(1, [&] { return std::move(dk); });
    d.add(2, [&] { return std::move(dv); });
  });
}
static const Register attention_spec{
    {.name = "attention_fused",
     .run = [](auto& x) { return attention_fused(x[0], x[1], x[2], x[0].dim(-1) % 2 ? 1 : 2); },
     .samples = {{{2, 5, 4}, {2, 5, 4}, {2, 5, 4}},
                 {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
                 {{1, 130, 2}, {1, 130, 2}, {1, 130, 2}}},
     .reference = [](auto& x) { return attention(x[0], x[1], x[2], x[0].dim(-1) % 2 ? 1 : 2); }}};

}  // namespace clearhead::inline CLEARHEAD_REAL
