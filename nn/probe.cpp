#include "nn/probe.h"

#include <algorithm>

namespace clearhead::inline CLEARHEAD_REAL {
namespace {
std::string full_name(const char* name) {
  std::string full;
  for (const std::string& part : scope()) full += part + ".";
  return full + name;
}
}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] != '*') return !name.empty() && name[0] == pattern[0] && matches(pattern.substr(1), name.substr(1));
  for (size_t skip = 0; skip <= name.size(); ++skip)
    if (matches(pattern.substr(1), name.substr(skip))) return true;
  return false;
}

bool Probe::wants(const char* name) const {
  if (idle()) return false;
  const std::string full = full_name(name);
  const auto fits = [&](const std::string& pattern) { return matches(pattern, full); };
  return std::ranges::any_of(captures_, fits) ||
         std::ranges::any_of(replacements_, [&](const auto& r) { return fits(r.first); });
}

Var Probe::operator()(const char* name, const Var& x) {
  if (idle()) return x;
  const std::string full = full_name(name);
  Var y = x;
  for (const auto& [pattern, f] : replacements_) {
    if (!matches(pattern, full)) continue;
    y = f(full, y);
    require(y.shape() == x.shape(), "probe", "the replacement of ", full, " has shape ", y.shape(), ", not ",
            x.shape());
  }
  if (std::ranges::any_of(captures_, [&](const std::string& pattern) { return matches(pattern, full); }))
    captured_[full] = y.value();
  return y;
}

const Tensor& Probe::operator[](const std::string& name) const {
  const auto it = captured_.find(name);
  if (it != captured_.end()) return it->second;
  std::string have;
  for (const auto& [known, tensor] : captured_) have += " " + known;
  fail("probe", "nothing was captured under '", name, "'; captured:", have.empty() ? " nothing" : have);
}

}  // namespace clearhead::inline CLEARHEAD_REAL
