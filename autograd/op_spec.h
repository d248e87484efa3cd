// OpSpec: what the automatic tests need to know about an op. A spec stands right under its op (see ops/matmul.cpp).
//
// tests/test_gradcheck.cpp walks over all of them, in double: central differences at every sample shape, the same input
// used twice, non-contiguous inputs; and where `reference` is given, equal values and gradients. Another test fails if
// a model records an op that has no spec, so an op cannot be forgotten.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/var.h"

namespace clearhead::inline CLEARHEAD_REAL {

using Inputs = std::vector<Var>;

struct OpSpec {
  std::string name;  // as given to record()
  std::function<Var(const Inputs&)> run;
  std::vector<std::vector<Shape>> samples;                // each: the shapes of one set of inputs
  std::function<Var(const Inputs&)> reference = nullptr;  // for a fused op: the definition that it must equal
  bool positive = false;  // sample inputs from [0.5, 2.5) instead of a normal distribution
};

std::vector<OpSpec>& op_specs();

// static const Register spec{{.name = ..., .run = ..., .samples = ...}};
struct Register {
  Register(OpSpec spec) { op_specs().push_back(std::move(spec)); }
};

}  // namespace clearhead::inline CLEARHEAD_REAL
