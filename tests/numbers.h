// Numbers that kernels are tried on, and the same computations in plain double precision.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tensor/tensor.h"

using namespace clearhead;

inline constexpr Real infinity = std::numeric_limits<Real>::infinity(),
                      not_a_number = std::numeric_limits<Real>::quiet_NaN();
inline constexpr Real huge = Real(1e30);
inline constexpr double eps = double(std::numeric_limits<Real>::epsilon());

inline std::vector<double> doubles(const Tensor& t) {
  const Tensor in = t.contiguous();
  return {in.flat().begin(), in.flat().end()};
}

inline void expect_near(const Tensor& t, const std::vector<double>& expected, double bound) {
  ASSERT_EQ(size_t(t.numel()), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(double(t.flat()[i]), expected[i], bound) << "element " << i;
}

// softmax of one row in double
inline std::vector<double> softmax_of(const Real* x, int64_t n) {
  double max = x[0], sum = 0;
  for (int64_t i = 0; i < n; ++i) max = std::max(max, double(x[i]));
  std::vector<double> p;
  for (int64_t i = 0; i < n; ++i) sum += p.emplace_back(std::exp(double(x[i]) - max));
  for (double& v : p) v /= sum;
  return p;
}
