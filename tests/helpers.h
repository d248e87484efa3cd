// What several tests share.
#pragma once

#include <string>

#include "tensor/error.h"

// The text of the Error that f throws.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const clearhead::Error& e) {
    return e.what();
  }
  return "(no error)";
}
