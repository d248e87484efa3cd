// safetensors: named tensors in a file that Python reads too (github.com/huggingface/safetensors, format version 0.x):
//
//     8 bytes      length N of the header, little endian
//     N bytes      JSON: {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, "__metadata__": {..}}
//     the rest     the numbers, row-major, little endian; offsets count from here, without holes or overlaps
#pragma once

#include <map>
#include <string>

#include "tensor/tensor.h"

namespace clearhead::inline CLEARHEAD_REAL {

struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;

  const Tensor& at(const std::string& name,
                   const Shape& expected) const;  // Error if it is missing or has another shape
  std::string path;                               // where it came from, for errors
};

// Writes F32 (F64 in the double build), atomically. Reads F32 and F64, and checks everything that the header claims.
void save_tensors(const std::string& path, const TensorFile& file);
TensorFile load_tensors(const std::string& path);

}  // namespace clearhead::inline CLEARHEAD_REAL
