#include "tensor/linalg.h"

#include <lapacke.h>

#include <algorithm>

#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {
// LAPACK would hang on an infinite entry, or return numbers that mean nothing.
std::vector<double> checked_doubles(const char* where, const Tensor& a) {
  require(all_finite(a), where, "the matrix has NaN or infinite entries, shape ", a.shape());
  const Tensor in = a.contiguous();
  const auto flat = in.flat();
  return {flat.begin(), flat.end()};
}
}  // namespace

std::vector<std::complex<double>> eigenvalues(const Tensor& a) {
  require(a.rank() == 2 && a.dim(0) == a.dim(1), "eigenvalues", "needs a square matrix, got ", a.shape());
  const auto n = lapack_int(a.dim(0));
  std::vector<double> m = checked_doubles("eigenvalues", a), re(size_t(n), 0), im(size_t(n), 0);
  const lapack_int info =
      LAPACKE_dgeev(LAPACK_ROW_MAJOR, 'N', 'N', n, m.data(), n, re.data(), im.data(), nullptr, n, nullptr, n);
  require(info == 0, "eigenvalues", "no convergence (LAPACK says ", info, "), shape ", a.shape());
  std::vector<std::complex<double>> values;
  for (size_t i = 0; i < size_t(n); ++i) values.emplace_back(re[i], im[i]);
  std::ranges::stable_sort(values, std::greater{}, [](const auto& z) { return std::abs(z); });
  return values;
}

Svd svd(const Tensor& a) {
  require(a.rank() == 2, "svd", "needs a matrix, got ", a.shape());
  const auto n = lapack_int(a.dim(0)), m = lapack_int(a.dim(1)), r = std::min(n, m);
  std::vector<double> in = checked_doubles("svd", a), u(size_t(n * r), 0), s(size_t(r), 0), vh(size_t(r * m), 0);
  const lapack_int info =
      LAPACKE_dgesdd(LAPACK_ROW_MAJOR, 'S', n, m, in.data(), m, s.data(), u.data(), r, vh.data(), m);
  require(info == 0, "svd", "no convergence (LAPACK says ", info, "), shape ", a.shape());
  return {Tensor::from({n, r}, u), std::move(s), Tensor::from({r, m}, vh)};
}

}  // namespace clearhead::inline CLEARHEAD_REAL
