// FIELDS: a layer says once which of its members hold parameters, and gets names, saving, loading, counting and
// printing.
//
//     struct Linear {
//       Var W, b;
//       FIELDS(W, b)
//     };
//     for_each_param(model, [](const std::string& name, Var& p) { ... });      // "blocks.1.attn.W_Q", ...
//
// A field is a Var, another layer, or a std::vector or std::optional of either. Layers are plain structs: copying one
// copies handles, so the copy shares its parameters; clone() gives a model of its own. A forgotten field would not
// train and not be saved, in silence, which is why tests/test_layers.cpp audits every layer (`audit`, below).
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/var.h"

#define FIELDS(...)                                             \
  template <class Visitor_>                                     \
  void fields(Visitor_&& visit_) {                              \
    clearhead::visit_fields(#__VA_ARGS__, visit_, __VA_ARGS__); \
  }

namespace clearhead {

// "W, b" and two members -> visit("W", W), visit("b", b)
template <class Visitor, class... Members>
void visit_fields(std::string_view names, Visitor&& visit, Members&... members) {
  const auto next = [&names] {
    names.remove_prefix(std::min(names.find_first_not_of(", \n"), names.size()));
    const std::string name(names.substr(0, names.find_first_of(", \n")));
    names.remove_prefix(name.size());
    return name;
  };
  (visit(next(), members), ...);
}

inline std::string join_path(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

// Calls f(dotted name, Var&) for every Var below `field`, in the order of the fields. A constant one (fixed sinusoids)
// too.
template <class F>
void for_each_var(const std::string& path, Var& v, F& f) {
  f(path, v);
}
template <class Field, class F>
void for_each_var(const std::string& path, std::optional<Field>& field, F& f) {
  if (field) for_each_var(path, *field, f);
}
template <class Field, class F>
void for_each_var(const std::string& path, std::vector<Field>& items, F& f) {
  for (size_t i = 0; i < items.size(); ++i) for_each_var(join_path(path, std::to_string(i)), items[i], f);
}
template <class Layer, class F>
requires requires(Layer& l) {
  l.fields([](const std::string&, auto&) {});
}
void for_each_var(const std::string& path, Layer& layer, F& f) {
  layer.fields([&](const std::string& name, auto& field) { for_each_var(join_path(path, name), field, f); });
}

// Only what trains.
template <class Layer, class F>
void for_each_param(Layer& layer, F f) {
  auto visit = [&f](const std::string& name, Var& v) {
    if (v.needs_grad()) f(name, v);
  };
  for_each_var("", layer, visit);
}

template <class Layer>
std::vector<Var> params(Layer& layer) {
  std::vector<Var> list;
  for_each_param(layer, [&](const std::string&, Var& p) { list.push_back(p); });
  return list;
}

// Each with its dotted name, in the same order.
using NamedParams = std::vector<std::pair<std::string, Var>>;
template <class Layer>
NamedParams named_params(Layer& layer) {
  NamedParams list;
  for_each_param(layer, [&](const std::string& name, Var& p) { list.emplace_back(name, p); });
  return list;
}

template <class Layer>
int64_t count_params(Layer& layer) {
  int64_t n = 0;
  for_each_param(layer, [&](const std::string&, Var& p) { n += p.value().numel(); });
  return n;
}

// A copy with parameters of its own.
template <class Layer>
Layer clone(Layer layer) {
  auto copy = [](const std::string&, Var& v) {
    if (v.value().defined()) v = v.needs_grad() ? Var::param(v.value().clone()) : Var(v.value().clone());
  };
  for_each_var("", layer, copy);
  return layer;
}

// Compares the trainable leaves that a loss depends on with those that FIELDS lists. Empty, or what is wrong.
template <class Layer>
std::string audit(Layer& layer, const Var& loss) {
  std::vector<const Node*> leaves, listed;
  for (const Node* n : reached(loss))
    if (n->leaf()) leaves.push_back(n);
  std::string problems;
  for_each_param(layer, [&](const std::string& name, Var& p) {
    listed.push_back(p.node().get());
    if (std::ranges::find(leaves, p.node().get()) == leaves.end())
      problems += name + ": listed in FIELDS, but the loss does not depend on it\n";
  });
  for (const Node* n : leaves)
    if (std::ranges::find(listed, n) == listed.end()) {
      std::ostringstream shape;
      shape << n->shape;
      problems += "a parameter of shape " + shape.str() + ": the loss depends on it, but FIELDS does not list it\n";
    }
  return problems;
}

}  // namespace clearhead
