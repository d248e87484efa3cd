// Probe: looks at, and changes, what happens inside a model. It is an argument of the forward pass, not a state of the
// model, so nothing can be left behind.
//
//     Probe probe;
//     probe.capture("blocks.*.attn.pattern");
//     probe.replace("blocks.1.attn.z", [](const std::string&, const Var& z) { return scale(z, 0); });  // ablate layer 1
//     model.logits(tokens, probe);
//     const Tensor& pattern = probe["blocks.0.attn.pattern"];  // [B, H, T, T]
//
// Every layer passes its activations through: x = probe("resid_pre", x). The full name is the path of layers that are
// running (error.h) and that name, joined by dots. Replacements happen before captures. A Probe that asks for nothing
// costs nothing.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autograd/var.h"

namespace clearhead::inline CLEARHEAD_REAL {

class Probe {
 public:
  using Replace = std::function<Var(const std::string& name, const Var& x)>;

  // Patterns are full names, where * stands for any characters.
  void capture(const std::string& pattern) { captures_.push_back(pattern); }
  void replace(const std::string& pattern, Replace f) { replacements_.emplace_back(pattern, std::move(f)); }

  Var operator()(const char* name, const Var& x);
  bool wants(const char* name) const;  // would this name, at this place of the model, be captured or replaced?

  const Tensor& operator[](const std::string& name) const;  // Error, with the names there are, if it was not captured
  const std::map<std::string, Tensor>& captured() const { return captured_; }

 private:
  bool idle() const { return captures_.empty() && replacements_.empty(); }
  std::vector<std::string> captures_;
  std::vector<std::pair<std::string, Replace>> replacements_;
  std::map<std::string, Tensor> captured_;
};

// Does `name` match `pattern`, where * stands for any characters (also none)?
bool matches(std::string_view pattern, std::string_view name);

}  // namespace clearhead::inline CLEARHEAD_REAL
