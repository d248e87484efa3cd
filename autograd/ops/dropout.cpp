// Dropout: y = x * mask, where mask is 0 with probability p and 1 / (1 - p) otherwise, so that E[y] = x. Dropping is
// for training only; a model that evaluates does not call this.
#include "autograd/op_spec.h"
#include "autograd/ops.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {

Var dropout(const Var& x, double p, Rng& rng) {
  require(p >= 0 && p < 1, "dropout", "the probability must be in [0, 1), got ", p);
  if (p == 0) return x;
  Tensor mask = Tensor::empty(x.shape());
  for (Real& m : mask.mut()) m = rng.uniform() < p ? Real(0) : Real(1 / (1 - p));
  return record("dropout", mul(x.value(), mask), {x},
                [mask](const Tensor& dy, Adjoints& d) { d.add(0, [&] { return mul(dy, mask); }); });
}
static const Register dropout_spec{{"dropout",
                                    [](auto& x) {
                                      Rng rng(1, Stream::dropout);
                                      return dropout(x[0], 0.4, rng);
                                    },
                                    {{{4, 5}}, {{}}, {{2, 1, 3}}}}};

}  // namespace clearhead::inline CLEARHEAD_REAL
