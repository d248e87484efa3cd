// Elementwise ops. y_i depends on x_i alone, so the pullback multiplies dL/dy_i by dy_i/dx_i. What a pullback captures
// is what the op keeps in memory: exp needs only its output, mul both inputs, add nothing.
#include <cmath>
#include <numbers>

#include "autograd/op_spec.h"
#include "autograd/ops.h"
#include "tensor/kernels.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {
const std::vector<std::vector<Shape>> two_of_each{{{2, 3}, {2, 3}}, {{}, {}}, {{1}, {1}}, {{2, 1, 3}, {2, 1, 3}}};
const std::vector<std::vector<Shape>> one_of_each{{{2, 3}}, {{}}, {{1}}, {{2, 1, 3}}};
}  // namespace

Var add(const Var& a, const Var& b) {
  return record("add", add(a.value(), b.value()), {a, b}, [](const Tensor& dy, Adjoints& d) {
    d.add(0, [&] { return dy; });
    d.add(1, [&] { return dy; });
  });
}
static const Register add_spec{{"add", [](auto& x) { return add(x[0], x[1]); }, two_of_each}};

Var sub(const Var& a, const Var& b) {
  return record("sub", sub(a.value(), b.value()), {a, b}, [](const Tensor& dy, Adjoints& d) {
    d.add(0, [&] { return dy; });
    d.add(1, [&] { return scale(dy, -1); });
  });
}
static const Register sub_spec{{"sub", [](auto& x) { return sub(x[0], x[1]); }, two_of_each}};

Var mul(const Var& a, const Var& b) {
  return record("mul", mul(a.value(), b.value()), {a, b},
                [A = a.value(), B = b.value()](const Tensor& dy, Adjoints& d) {
                  d.add(0, [&] { return mul(dy, B); });
                  d.add(1, [&] { return mul(dy, A); });
                });
}
static const Register mul_spec{{"mul", [](auto& x) { return mul(x[0], x[1]); }, two_of_each}};

// y = a / b:  dy/da = 1/b,  dy/db = -a/b^2 = -y/b
Var div(const Var& a, const Var& b) {
  const Tensor y = div(a.value(), b.value());
  return record("div", y, {a, b}, [y, B = b.value()](const Tensor& dy, Adjoints& d) {
    d.add(0, [&] { return div(dy, B); });
    d.add(1, [&] { return scale(div(mul(dy, y), B), -1); });
  });
}
static const Register div_spec{
    {.name = "div", .run = [](auto& x) { return div(x[0], x[1]); }, .samples = two_of_each, .positive = true}};

Var scale(const Var& a, Real factor) {
  return record("scale", scale(a.value(), factor), {a},
                [factor](const Tensor& dy, Adjoints& d) { d.add(0, [&] { return scale(dy, factor); }); });
}
static const Register scale_spec{{"scale", [](auto& x) { return scale(x[0], Real(-1.5)); }, one_of_each}};

Var exp(const Var& x) {
  const Tensor y = map(x.value(), [](Real v) { return std::exp(v); });
  return record("exp", y, {x}, [y](const Tensor& dy, Adjoints& d) { d.add(0, [&] { return mul(dy, y); }); });
}
static const Register exp_spec{{"exp", [](auto& x) { return exp(x[0]); }, one_of_each}};

Var log(const Var& x) {
  const Tensor y = map(x.value(), [](Real v) { return std::log(v); });
  return record("log", y, {x},
                [X = x.value()](const Tensor& dy, Adjoints& d) { d.add(0, [&] { return div(dy, X); }); });
}
static const Register log_spec{
    {.name = "log", .run = [](auto& x) { return log(x[0]); }, .samples = one_of_each, .positive = true}};

// tanh' = 1 - tanh^2
Var tanh(const Var& x) {
  const Tensor y = map(x.value(), [](Real v) { return std::tanh(v); });
  return record("tanh", y, {x}, [y](const Tensor& dy, Adjoints& d) {
    d.add(0, [&] { return zip("tanh", dy, y, [](Real g, Real t) { return g * (1 - t * t); }); });
  });
}
static const Register tanh_spec{{"tanh", [](auto& x) { return tanh(x[0]); }, one_of_each}};

// s' = s (1 - s)
Var sigmoid(const Var& x) {
  const Tensor y = map(x.value(), [](Real v) { return 1 / (1 + std::exp(-v)); });
  return record("sigmoid", y, {x}, [y](const Tensor& dy, Adjoints& d) {
    d.add(0, [&] { return zip("sigmoid", dy, y, [](Real g, Real s) { return g * s * (1 - s); }); });
  });
}
static const Register sigmoid_spec{{"sigmoid", [](auto& x) { return sigmoid(x[0]); }, one_of_each}};

Var relu(const Var& x) {
  const Tensor y = map(x.value(), [](Real v) { return v < 0 ? Real(0) : v; });  // this way round, NaN stays NaN
  return record("relu", y, {x}, [y](const Tensor& dy, Adjoints& d) {
    d.add(0, [&] { return zip("relu", dy, y, [](Real g, Real v) { return v > 0 ? g : Real(0); }); });
  });
}
static const Register relu_spec{{"relu", [](auto& x) { return relu(x[0]); }, one_of_each}};

// y = x Phi(x) with Phi the normal distribution function, so  y' = Phi(x) + x phi(x)
Var gelu(const Var& x) {
  const auto Phi = [](Real v) { return Real(0.5) * (1 + std::erf(v * Real(std::numbers::sqrt2 / 2))); };
  const Tensor y = map(x.value(), [Phi](Real v) { return v * Phi(v); });
  return record("gelu", y, {x}, [Phi, X = x.value()](const Tensor& dy, Adjoints& d) {
    d.add(0, [&] {
      return zip("gelu", dy, X, [Phi](Real g, Real v) {
        const Real phi = std::exp(-v * v / 2) * Real(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
        return g * (Phi(v) + v * phi);
      });
    });
  });
}
static const Register gelu_spec{{"gelu", [](auto& x) { return gelu(x[0]); }, one_of_each}};

}  // namespace clearhead::inline CLEARHEAD_REAL
