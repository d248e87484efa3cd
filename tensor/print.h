// Tensors as text: a scalar is its number, a matrix one line per row; long axes are shortened by "..".
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace clearhead::inline CLEARHEAD_REAL {

std::string to_string(const Tensor& t, int decimals = 4, int64_t most = 12);

}  // namespace clearhead::inline CLEARHEAD_REAL
