// The algebra of circuits: factored matrices, compositions and tables against dense ones.
#include "nn/circuits/circuits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nn/circuits/tables.h"
#include "tensor/blas.h"
#include "tensor/kernels.h"
#include "tests/circuit_models.h"
#include "tests/helpers.h"

namespace {

Factored random_factored(int64_t m, int64_t r, int64_t n, Rng& rng) {
  return {random_normal({m, r}, 1, rng), random_normal({r, n}, 1, rng)};
}

Head random_head(int64_t d, int64_t r, Rng& rng) {
  return {random_normal({d, r}, 1, rng), random_normal({d, r}, 1, rng), random_normal({d, r}, 1, rng),
          random_normal({r, d}, 1, rng)};
}

double frobenius(const Tensor& t) {
  double s = 0;
  const Tensor numbers = t.contiguous();
  for (Real x : numbers.flat()) s += double(x) * double(x);
  return std::sqrt(s);
}

}  // namespace

TEST(Factored, IsTheDenseMatrix) {
  Rng rng(1);
  const Factored x = random_factored(9, 3, 7, rng), y = random_factored(7, 4, 8, rng),
                 z = random_factored(9, 2, 7, rng), square = random_factored(9, 3, 9, rng);
  EXPECT_LT(max_abs_diff((x * y).dense(), matmul(x.dense(), y.dense())), bound);
  EXPECT_EQ((x * y).rank(), 3);
  EXPECT_EQ((x.transpose() * z).rank(), 2);
  EXPECT_LT(max_abs_diff(x.transpose().dense(), x.dense().transpose()), bound);
  EXPECT_NEAR(x.norm(), frobenius(x.dense()), bound * x.norm());
  EXPECT_NEAR(dot(x, z), sum_all(mul(x.dense(), z.dense())), bound * x.norm() * z.norm());
  double trace = 0;
  for (int64_t i = 0; i < 9; ++i) trace += double(square.dense().at({i, i}));
  EXPECT_NEAR(square.trace(), trace, bound * square.norm());
  EXPECT_NEAR(norm(Sum{x, z}), frobenius(add(x.dense(), z.dense())), bound * x.norm());
  EXPECT_LT(max_abs_diff(joined({x, z}).dense(), add(x.dense(), z.dense())), bound);
}

TEST(Factored, EigenvaluesAndSingularValues) {
  Rng rng(2);
  const Factored x = random_factored(9, 3, 9, rng);
  const auto few = x.eigenvalues(), all = eigenvalues(x.dense());
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(std::abs(few[i]), std::abs(all[i]), 20 * bound);
  for (size_t i = 3; i < 9; ++i) EXPECT_LT(std::abs(all[i]), 1e-2);
  const Factored wide = random_factored(6, 2, 8, rng);
  const Svd s = wide.svd();
  Tensor US = s.U.clone();
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < 2; ++j) US.mut()[size_t(i * 2 + j)] *= Real(s.S[size_t(j)]);
  EXPECT_LT(max_abs_diff(matmul(US, s.Vh), wide.dense()), 10 * bound);
  EXPECT_GE(s.S[0], s.S[1]);
}

TEST(Factored, RefusesWhatDoesNotFit) {
  Rng rng(3);
  const Factored x = random_factored(4, 2, 5, rng);
  EXPECT_EQ(error_of([&] { x* x; }), "factored: product: inner dimensions differ, 5 and 4");
  EXPECT_EQ(error_of([&] { x.trace(); }), "factored: trace needs a square matrix, got [4, 5]");
  EXPECT_EQ(error_of([&] { x.eigenvalues(); }), "factored: eigenvalues needs a square matrix, got [4, 5]");
}

// Each against the dense matrix multiplied out by the definition, for a head pair where no two orders agree.
TEST(Composition, IsWhatTheSecondHeadSeesOfTheFirst) {
  Rng rng(4);
  const int64_t d = 12;
  const Head one = random_head(d, 3, rng), two = random_head(d, 4, rng);
  const auto product = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
  const Tensor OV1 = product(one.W_V, one.W_O), OV2 = product(two.W_V, two.W_O);
  const Tensor QK2 = scale(product(two.W_Q, two.W_K.transpose()), Real(1 / std::sqrt(4.)));
  const auto near = [&](Through through, const Tensor& dense, double others) {
    EXPECT_LT(max_abs_diff(composed(through, one, two).dense(), dense), 100 * bound) << name(through);
    EXPECT_NEAR(composition(through, one, two), frobenius(dense) / (frobenius(OV1) * others), 10 * bound);
  };
  near(Through::queries, product(OV1, QK2), frobenius(QK2));
  near(Through::keys, product(QK2, OV1.transpose()), frobenius(QK2));
  near(Through::values, product(OV1, OV2), frobenius(OV2));
  EXPECT_GT(max_abs_diff(product(OV2, OV1), product(OV1, OV2)), 1);  // so the order is tested
}

// Elhage et al. leave the null out; for random matrices of low rank it is 1 / sqrt(d_model).
TEST(Composition, NullIsOneOverRootD) {
  Rng rng(5);
  for (Through t : {Through::queries, Through::keys, Through::values}) {
    const Null null = composition_null(64, 16, 16, t, 60, rng);
    EXPECT_NEAR(null.mean, 0.125, 0.006);
    EXPECT_NEAR(null.sd, 0.006, 0.004);
  }
}

TEST(Copying, EigenvaluesSeeTheSign) {
  Rng rng(6);
  const Tensor E = random_normal({30, 8}, 1, rng);
  const Factored copies{E, E.transpose()}, opposes{scale(E, -1), E.transpose()};
  EXPECT_NEAR(copying_score(copies), 1, bound);
  EXPECT_NEAR(copying_score(opposes), -1, bound);
  const Copying c = copying(copies);
  EXPECT_EQ(c.own_is_first, copying(copies).own_is_first);
  EXPECT_GT(c.own_z, 1);
  EXPECT_LT(copying(opposes).own_z, -1);
  // Not a proof: mostly anticopying, with one large eigenvalue of the other sign.
  Tensor A({4, 4}), I({4, 4});
  for (int64_t i = 0; i < 4; ++i) A.mut()[size_t(5 * i)] = i ? Real(-1) : Real(10), I.mut()[size_t(5 * i)] = 1;
  EXPECT_GT(copying_score(Factored{A, I}), 0.5);
  EXPECT_EQ(copying(Factored{A, I}).own_is_first, 0.25);
}

TEST(Copying, NullOfRandomHeads) {
  Weights w = weights_of(some_model(1));
  Rng rng(7);
  const Null null = copying_null(w, 5, 200, rng);
  EXPECT_LT(std::abs(null.mean), 0.1);
  EXPECT_GT(null.sd, 0.1);
  w.W_U = w.W_E.transpose();  // tied embeddings: a random head copies no more, but the direct path does
  EXPECT_LT(std::abs(copying_null(w, 5, 200, rng).mean), 0.1);
  EXPECT_NEAR(copying_score(direct_path(w)), 1, 1e-5);
}

TEST(Tables, AreTheTopOfTheDenseOnes) {
  Rng rng(14);
  const Factored t = random_factored(300, 4, 17, rng);
  const Tensor dense = t.dense();
  const auto top = top_of_rows(t, {299, 0, 5}, 3);
  for (size_t i = 0; i < 3; ++i) {
    const int64_t row = std::vector<int64_t>{299, 0, 5}[i];
    std::vector<double> values;
    for (int64_t j = 0; j < 17; ++j) values.push_back(double(dense.at({row, j})));
    for (const Entry& e : top[i]) EXPECT_NEAR(e.value, values[size_t(e.token)], 1e-4);
    std::ranges::sort(values, std::greater());
    for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(top[i][k].value, values[k], 1e-4);
  }
  std::vector<double> p(300, 1. / 300);
  const Tensor columns = sum(centred_over_rows(t, p).dense(), 0);
  for (Real column : columns.flat()) EXPECT_NEAR(double(column), 0, 1e-2);
  EXPECT_EQ(error_of([&] { top_of_rows(t, {300}, 1); }), "tables: row 300 is outside 0..299");
}

// With a context of two tokens and no positions, the table is the model.
TEST(Tables, OfTheWholeModel) {
  const Transformer model = some_model(1, Positions::none);
  Tokens tokens(1, 2);
  tokens(0, 0) = 4, tokens(0, 1) = 9;
  const NoGrad no_grad;
  const Tensor expected = model.logits(tokens).value();
  const auto logits = skip_trigram_logits(weights_of(model), 4, 9, std::vector<double>(11, 1. / 11), 0);
  for (int64_t v = 0; v < 11; ++v) EXPECT_NEAR(logits[size_t(v)], double(expected.at({0, 1, v})), bound);
}
