// Optimizers: what to do with gradients. step() uses the gradients of its parameters and clears them, so that a
// forgotten zero_grad cannot add up the gradients of two steps.
#pragma once

#include <string>
#include <vector>

#include "autograd/var.h"

namespace clearhead::inline CLEARHEAD_REAL {

// sqrt of the sum of squares over all gradients (0 for those that were not reached).
double global_norm(const std::vector<Var>& params);

// What to multiply gradients with, so that their global norm is at most max_norm. 1 if max_norm is 0 (no clipping).
double clip_factor(double norm, double max_norm);

// Stochastic gradient descent:  u = momentum * u + g,  w -= lr * u
class Sgd {
 public:
  explicit Sgd(std::vector<Var> params, double momentum = 0);
  void step(double lr, double grad_factor = 1);

 private:
  std::vector<Var> params_;
  double momentum_;
  std::vector<Tensor> u_;
};

// Adam (Kingma & Ba 2015) with decoupled weight decay (Loshchilov & Hutter 2019):
//     m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2      (the means over the last steps)
//     w -= lr * ( m/(1 - b1^t) / (sqrt(v/(1 - b2^t)) + eps)  +  weight_decay * w )
struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.98, eps = 1e-8, weight_decay = 0.01;
};
class AdamW {
 public:
  explicit AdamW(std::vector<Var> params, AdamWOptions options = {});
  void step(double lr, double grad_factor = 1);

  // The state, for checkpoints: moments in the order of the parameters, and the number of steps taken.
  std::vector<Tensor>& m() { return m_; }
  std::vector<Tensor>& v() { return v_; }
  int64_t steps = 0;

 private:
  std::vector<Var> params_;
  AdamWOptions options_;
  std::vector<Tensor> m_, v_;
};

// The learning rate at a step (0-based): linear warm-up from lr / warmup, then constant, or a cosine down to 0 at
// `total`.
struct Schedule {
  double lr = 1e-3;
  int64_t warmup = 0;
  int64_t total = 0;
  bool cosine = false;
  double at(int64_t step) const;
};

}  // namespace clearhead::inline CLEARHEAD_REAL
