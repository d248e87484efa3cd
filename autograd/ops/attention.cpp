// Causal self-attention, for H heads at once. For one head, with q, k, v [T, d_head]:
//
//     S = q k^T / sqrt(d_head)      scores: how much destination i (row) wants source j (column)
//     A = softmax(S) over j <= i    the pattern: row i is a distribution over what came before
//     z = A v                       what is moved from the sources to the destination
//
// Pullback, from dz:   dv = A^T dz,   dA = dz v^T,   dS = A * (dA - D) with D_i = sum_j A_ij dA_ij,
//                      dq = dS k / sqrt(d_head),   dk = dS^T q / sqrt(d_head).
// Since z_i = sum_j A_ij v_j, also D_i = <dz_i, z_i>, which needs no pattern.
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

// The same as one node. For each sequence and head, blocks of 64 destinations are scored against the sources up to the
// block's end, and never against later ones. Only each row's maximum and sum are saved: with them, the backward pass
// recomputes the pattern block by block. Memory O(T) per head instead of O(T^2), and the blocks stay in cache.
namespace {

constexpr int64_t block = 32;

struct Head {  // one head of one sequence: pointers into [B, T, H * d_head]
  int64_t T, width, stride;
  Real scale;
  const Real *q, *k, *v;
};

// out [n, cols] = scale * q[first .. first + n] k[0 .. cols]^T. k and (in the pullback) v are transposed once for each
// head instead of by gemm's flag: for blocks of this size OpenBLAS is nearly twice as fast on untransposed factors.
void scores(const Head& h, int64_t first, int64_t n, int64_t cols, const Real* k_transposed, Real* out) {
  gemm(n, cols, h.width, h.scale, {h.q + first * h.stride, h.stride}, {k_transposed, h.T}, 0, out, cols);
}

void forward(const Head& h, Real* z, Real* most, Real* inverse, Real* k_transposed, Real* S) {
  hot::transpose(h.k, h.stride, h.T, h.width, k_transposed, h.T);
  for (int64_t first = 0; first < h.T; first += block) {
    const int64_t n = std::min(block, h.T - first), cols = first + n;
    scores(h, first, n, cols, k_transposed, S);
    hot::attention_rows(S, first, n, cols, most + first, inverse + first);
    gemm(n, h.width, cols, 1, {S, cols}, {h.v, h.stride}, 0, z + first * h.stride, h.stride);
    for (int64_t row = first; row < cols; ++row) hot::scale(z + row * h.stride, inverse[row], h.width);
  }
}

// Blocks from the last to the first: the last one reaches every source, so it sets dk and dv, and the others add.
void pullback(const Head& h, const Real* z, const Real* most, const Real* inverse, const Real* dz, Real* dq, Real* dk,
              Real* dv, Real* k_transposed, Real* v_transposed, Real* A, Real* dS) {
  const int64_t s = h.stride;
  hot::transpose(h.k, s, h.T, h.width, k_transposed, h.T);
  hot::transpose(h.v, s, h.T, h.width, v_transposed, h.T);
  for (int64_t first = (h.T - 1) / block * block; first >= 0; first -= block) {
    const int64_t n = std::min(block, h.T - first), cols = first + n;
    const Real add_to = cols == h.T ? 0 : 1;
    scores(h, first, n, cols, k_transposed, A);
    gemm(n, cols, h.width, 1, {dz + first * s, s}, {v_transposed, h.T}, 0, dS, cols);  // dA, soon dS
    Real D[block];
    for (int64_t i = 0; i < n; ++i) D[i] = hot::dot(dz + (first + i) * s, z + (first + i) * s, h.width);
    hot::attention_rows_pullback(A, dS, first, n, cols, most + first, inverse + first, D, h.scale);
    gemm(cols, h.width, n, 1, {A, cols, true}, {dz + first * s, s}, add_to, dv, s);
    gemm(n, h.width, cols, 1, {dS, cols}, {h.k, s}, 0, dq + first * s, s);
    gemm(cols, h.width, n, 1, {dS, cols, true}, {h.q + first * s, s}, add_to, dk, s);
  }
}

}  // namespace

// q, k, v [B, T, H * d_head] -> z.  Saves q, k, v, z, and two numbers for each row.
Var attention_fused(const Var& q_var, const Var& k_var, const Var& v_var, int64_t n_heads) {
  const Shape shape = q_var.shape();
  require(shape.rank() == 3 && n_heads >= 1 && shape[2] % n_heads == 0, "attention",
          "q must be [B, T, n_heads * d_head], got ", shape, " for ", n_heads, " heads");
  require(k_var.shape() == shape && v_var.shape() == shape, "attention", "q, k and v differ: ", shape, ", ",
          k_var.shape(), ", ", v_var.shape());
  const int64_t B = shape[0], T = shape[1], stride = shape[2], width = stride / n_heads;
  const Tensor q = q_var.value().contiguous(), k = k_var.value().contiguous(), v = v_var.value().contiguous();
  Tensor z = Tensor::empty(shape), most = Tensor::empty({B, n_heads, T}), inverse = Tensor::empty({B, n_heads, T});
  Real *const z_out = z.mut().data(), *const most_out = most.mut().data(), *const inverse_out = inverse.mut().data();

  const auto offset = [=](int64_t i) { return i / n_heads * T * stride + i % n_heads * width; };  // of head i of B * H
  const auto head = [=](int64_t i) {
    const int64_t o = offset(i);
    return Head{T, width, stride, Real(1 / std::sqrt(double(width))), q.data() + o, k.data() + o, v.data() + o};
  };
  parallel_for(B * n_heads, 1, [&](int64_t begin, int64_t end) {
    Tensor kt = Tensor::empty({width, T}), S = Tensor::empty({std::min(block, T), T});
    for (int64_t i = begin; i < end; ++i)
      forward(head(i), z_out + offset(i), most_out + i * T, inverse_out + i * T, kt.mut().data(), S.mut().data());
  });

  return record("attention_fused", z, {q_var, k_var, v_var}, [=](const Tensor& dz_any, Adjoints& d) {
    const Tensor dz = dz_any.contiguous();
    Tensor dq = Tensor::empty(shape), dk = Tensor::empty(shape), dv = Tensor::empty(shape);
    Real *const dq_out = dq.mut().data(), *const dk_out = dk.mut().data(), *const dv_out = dv.mut().data();
    parallel_for(B * n_heads, 1, [&](int64_t begin, int64_t end) {
      Tensor kt = Tensor::empty({width, T}), vt = Tensor::empty({width, T});
      Tensor A = Tensor::empty({std::min(block, T), T}), dS = Tensor::empty({std::min(block, T), T});
      for (int64_t i = begin; i < end; ++i) {
        const int64_t o = offset(i);
        pullback(head(i), z.data() + o, most.data() + i * T, inverse.data() + i * T, dz.data() + o, dq_out + o,
                 dk_out + o, dv_out + o, kt.mut().data(), vt.mut().data(), A.mut().data(), dS.mut().data());
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
