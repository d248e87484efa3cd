#include "nn/optim.h"

#include <cmath>
#include <numbers>

#include "tensor/hot.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {
std::vector<Tensor> zeros_like(const std::vector<Var>& params) {
  std::vector<Tensor> zeros;
  for (const Var& p : params) zeros.emplace_back(p.shape());
  return zeros;
}
}  // namespace

double global_norm(const std::vector<Var>& params) {
  double squares = 0;
  for (const Var& p : params) {
    if (!p.grad().defined()) continue;
    const Real* const g = p.grad().data();
    squares += parallel_sum(p.value().numel(), elementwise_grain,
                            [g](int64_t begin, int64_t end) { return hot::sum_of_squares(g + begin, end - begin); });
  }
  return std::sqrt(squares);
}

double clip_factor(double norm, double max_norm) { return max_norm > 0 && norm > max_norm ? max_norm / norm : 1; }

Sgd::Sgd(std::vector<Var> params, double momentum)
    : params_(std::move(params)), momentum_(momentum), u_(zeros_like(params_)) {}

void Sgd::step(double lr, double grad_factor) {
  for (size_t i = 0; i < params_.size(); ++i) {
    if (!params_[i].grad().defined()) continue;
    const auto g = params_[i].grad().flat();
    const auto u = u_[i].mut();
    Tensor w = params_[i].value();  // a handle on the same numbers
    const auto out = w.mut();
    for (size_t j = 0; j < g.size(); ++j) {
      u[j] = Real(momentum_) * u[j] + Real(grad_factor) * g[j];
      out[j] -= Real(lr) * u[j];
    }
    params_[i].clear_grad();
  }
}

AdamW::AdamW(std::vector<Var> params, AdamWOptions options)
    : params_(std::move(params)), options_(options), m_(zeros_like(params_)), v_(zeros_like(params_)) {}

void AdamW::step(double lr, double grad_factor) {
  ++steps;
  const auto correction = [&](double beta) { return Real(1 / (1 - std::pow(beta, double(steps)))); };
  const hot::AdamStep c{Real(lr),
                        Real(options_.beta1),
                        Real(options_.beta2),
                        Real(options_.eps),
                        Real(options_.weight_decay),
                        correction(options_.beta1),
                        correction(options_.beta2)};
  for (size_t i = 0; i < params_.size(); ++i) {
    if (!params_[i].grad().defined()) continue;
    const Real* const g = params_[i].grad().data();
    Tensor value = params_[i].value();
    Real *const w = value.mut().data(), *const m = m_[i].mut().data(), *const v = v_[i].mut().data();
    parallel_for(value.numel(), elementwise_grain, [&](int64_t begin, int64_t end) {
      hot::adam(c, g + begin, Real(grad_factor), m + begin, v + begin, w + begin, end - begin);
    });
    params_[i].clear_grad();
  }
}

double Schedule::at(int64_t step) const {
  if (step < warmup) return lr * double(step + 1) / double(warmup);
  if (!cosine || total <= warmup) return lr;
  const double done = std::min(1.0, double(step - warmup) / double(total - warmup));
  return lr * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace clearhead::inline CLEARHEAD_REAL
