// Sums and means. Every element of x adds to the sum with weight 1, so each receives the same dL/dy: a view that
// repeats it.
#include "autograd/op_spec.h"
#include "autograd/ops.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {

Var sum(const Var& x) {
  return record("sum", Tensor({}, Real(sum_all(x.value()))), {x},
                [from = x.shape()](const Tensor& dy, Adjoints& d) { d.add(0, [&] { return dy.expand(from); }); });
}
static const Register sum_spec{{"sum", [](auto& x) { return sum(x[0]); }, {{{2, 3}}, {{}}, {{1}}, {{2, 1, 3}}}}};

Var sum(const Var& x, int axis) {
  return record("sum_axis", sum(x.value(), axis), {x},
                [from = x.shape(), a = x.shape().axis(axis)](const Tensor& dy, Adjoints& d) {
                  d.add(0, [&] { return dy.reshape(from.with(a, 1)).expand(from); });
                });
}
static const Register sum_axis_spec{
    {"sum_axis", [](auto& x) { return sum(x[0], 1); }, {{{2, 3}}, {{2, 3, 2}}, {{1, 1}}, {{3, 1, 2}}}}};

Var mean(const Var& x) { return scale(sum(x), Real(1) / Real(x.value().numel())); }
Var mean(const Var& x, int axis) { return scale(sum(x, axis), Real(1) / Real(x.dim(axis))); }

}  // namespace clearhead::inline CLEARHEAD_REAL
