// gradcheck: is a pullback the derivative of its op? Compared with central differences, which need double precision:
//
//     f(x) = <w, op(x)> with random w;   df/dx_i  =  (f(x + h e_i) - f(x - h e_i)) / 2h  + O(h^2)
//
// Every coordinate is tried when there are few, and random directions otherwise.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/op_spec.h"

namespace clearhead::inline CLEARHEAD_REAL {

struct GradcheckResult {
  double worst = 0;   // the largest |analytic - numeric| / max(1, |analytic|, |numeric|)
  std::string where;  // input and coordinate of the worst
};

// `f` must be deterministic. The tensors are the values at which to check.
GradcheckResult gradcheck(const std::function<Var(const Inputs&)>& f, const std::vector<Tensor>& at, uint64_t seed = 0);

}  // namespace clearhead::inline CLEARHEAD_REAL
