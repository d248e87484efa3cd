// Errors say where, which rule was broken, and with which shapes:
//
//     blocks.1 > attn > matmul: inner dimensions differ: a is [5, 7], b is [4, 3]
//
// "where" is the path of the layers that are running (`In`, below) and the op that noticed. Checks are on in every
// build type. Example:  require(a.dim(-1) == b.dim(-2), "matmul", "inner dimensions differ: a is ", a.shape(), ...)
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace clearhead {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The names of the layers that are running, outermost first. Per thread.
inline std::vector<std::string>& scope() {
  thread_local std::vector<std::string> names;
  return names;
}

// While an In lives, errors are prefixed with its name, and a Probe sees names relative to it:  In here("blocks.", 1);
class In {
 public:
  template <class... Parts>
  explicit In(const Parts&... parts) {
    if constexpr (sizeof...(parts) == 1) {
      scope().emplace_back(parts...);
    } else {
      std::ostringstream name;
      (name << ... << parts);
      scope().push_back(name.str());
    }
  }
  ~In() { scope().pop_back(); }
  In(const In&) = delete;
  In& operator=(const In&) = delete;
};

template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(std::string_view where, const Parts&... parts) {
  std::ostringstream text;
  for (const std::string& name : scope()) text << name << " > ";
  text << where << ": ";
  (text << ... << parts);
  throw Error(text.str());
}

template <class... Parts>
void require(bool rule_holds, std::string_view where, const Parts&... parts) {
  if (!rule_holds) [[unlikely]]
    fail(where, parts...);
}

}  // namespace clearhead
