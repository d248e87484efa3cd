// Ops that move numbers without changing them. The pullback moves the gradient back the same way; expand, which repeats
// a number, sums the gradients of its copies.
#include "autograd/op_spec.h"
#include "autograd/ops.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {

Var reshape(const Var& x, const Shape& shape) {
  return record("reshape", x.value().reshape(shape), {x},
                [from = x.shape()](const Tensor& dy, Adjoints& d) { d.add(0, [&] { return dy.reshape(from); }); });
}
static const Register reshape_spec{{"reshape",
                                    [](auto& x) {
                                      return reshape(x[0], {x[0].value().numel(), 1});
                                    },
                                    {{{2, 3}}, {{}}, {{2, 1, 3}}}}};

Var transpose(const Var& x, int a, int b) {
  return record("transpose", x.value().transpose(a, b), {x},
                [a, b](const Tensor& dy, Adjoints& d) { d.add(0, [&] { return dy.transpose(a, b); }); });
}
static const Register transpose_spec{
    {"transpose", [](auto& x) { return transpose(x[0], 0, -1); }, {{{2, 3}}, {{1, 1}}, {{2, 3, 4}}}}};

// y's axis i is x's axis axes[i].
Var permute(const Var& x, const std::vector<int>& axes) {
  std::vector<int> back(axes.size());
  const Tensor y = x.value().permute(axes);
  for (size_t i = 0; i < axes.size(); ++i) back[size_t(x.shape().axis(axes[i]))] = int(i);
  return record("permute", y, {x},
                [back](const Tensor& dy, Adjoints& d) { d.add(0, [&] { return dy.permute(back); }); });
}
static const Register permute_spec{{"permute",
                                    [](auto& x) {
                                      return permute(x[0], {2, 0, 1});
                                    },
                                    {{{2, 3, 4}}, {{1, 2, 1}}}}};

// The gradient of what was left out is zero.
Var narrow(const Var& x, int axis, int64_t start, int64_t length) {
  return record("narrow", x.value().narrow(axis, start, length), {x},
                [axis, start, from = x.shape()](const Tensor& dy, Adjoints& d) {
                  d.add(0, [&] { return pad(dy, from, axis, start); });
                });
}
static const Register narrow_spec{
    {"narrow", [](auto& x) { return narrow(x[0], -1, 1, 2); }, {{{2, 3}}, {{4}}, {{2, 2, 4}}}}};

Var expand(const Var& x, const Shape& shape) {
  return record("expand", x.value().expand(shape), {x},
                [from = x.shape()](const Tensor& dy, Adjoints& d) { d.add(0, [&] { return sum_to(dy, from); }); });
}
static const Register expand_spec{{"expand",
                                   [](auto& x) {
                                     return expand(x[0], {2, 3, 4});
                                   },
                                   {{{4}}, {{}}, {{3, 1}}, {{2, 1, 4}}, {{1, 1, 1}}, {{2, 3, 4}}}}};

}  // namespace clearhead::inline CLEARHEAD_REAL
