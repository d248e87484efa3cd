#include "tensor/print.h"

#include <iomanip>

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

void print(std::ostream& out, const Tensor& t, int64_t most, const std::string& indent) {
  if (t.rank() == 0) {
    out << t.item();
    return;
  }
  out << '[';
  for (int64_t i = 0; i < t.dim(0); ++i) {
    const bool cut = t.dim(0) > most && i == most / 2;
    if (cut) i = t.dim(0) - most / 2;
    if (i > 0) out << (t.rank() == 1 ? " " : std::string("\n").append(indent).append(" "));
    if (cut) out << (t.rank() == 1 ? ".. " : std::string("..\n").append(indent).append(" "));
    print(out, t.select(0, i), most, indent + " ");
  }
  out << ']';
}

}  // namespace

std::string to_string(const Tensor& t, int decimals, int64_t most) {
  if (!t.defined()) return "(undefined)";
  std::ostringstream out;
  out << std::fixed << std::setprecision(decimals);
  print(out, t, std::max<int64_t>(most, 2), "");
  return out.str();
}

}  // namespace clearhead::inline CLEARHEAD_REAL
