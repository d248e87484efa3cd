#include "autograd/gradcheck.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "tensor/kernels.h"
#include "tensor/random.h"

namespace clearhead::inline CLEARHEAD_REAL {

std::vector<OpSpec>& op_specs() {
  static std::vector<OpSpec> specs;
  return specs;
}

GradcheckResult gradcheck(const std::function<Var(const Inputs&)>& f, const std::vector<Tensor>& at, uint64_t seed) {
  constexpr double h = 1e-5;
  constexpr int64_t few = 64, directions = 8;
  Rng rng(seed, Stream::analysis);
  Inputs params;
  for (const Tensor& x : at) params.push_back(Var::param(x.clone()));
  const Var y = f(params);
  const Tensor w = random_normal(y.shape(), 1, rng);
  backward(sum(mul(y, w)));

  const auto value = [&](size_t input, const Tensor& x) {
    const NoGrad no_grad;
    Inputs in(at.begin(), at.end());
    in[input] = x;
    return sum_all(mul(f(in).value(), w));
  };
  GradcheckResult result;
  for (size_t i = 0; i < at.size(); ++i) {
    const int64_t n = at[i].numel();
    const Tensor grad = params[i].grad().defined() ? params[i].grad() : Tensor(at[i].shape());
    for (int64_t trial = 0; trial < (n <= few ? n : directions); ++trial) {
      Tensor direction(at[i].shape());
      if (n <= few)
        direction.mut()[size_t(trial)] = 1;
      else
        direction = random_normal(at[i].shape(), 1 / std::sqrt(double(n)), rng);
      const double numeric =
          (value(i, add(at[i], scale(direction, Real(h)))) - value(i, sub(at[i], scale(direction, Real(h))))) / (2 * h);
      const double analytic = sum_all(mul(grad, direction));
      const double error = std::abs(analytic - numeric) / std::max({1.0, std::abs(analytic), std::abs(numeric)});
      if (error > result.worst || std::isnan(error)) {
        result.worst = std::isnan(error) ? HUGE_VAL : error;
        std::ostringstream where;
        where << "input " << i << " " << at[i].shape() << ", direction " << trial << ": analytic " << analytic
              << ", numeric " << numeric;
        result.where = where.str();
      }
    }
  }
  return result;
}

}  // namespace clearhead::inline CLEARHEAD_REAL
