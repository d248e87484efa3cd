// Storage: the memory behind tensors, 64-byte aligned (one cache line, one AVX-512 register), and a version counter.
//
// Freed blocks go to a free list by size class, and the next allocation of that class takes them back: after its first
// step, training asks the system for nothing. The list is off under the address sanitizer, which wants to see every
// free.
#pragma once

#include <cstdint>
#include <memory>

#include "tensor/real.h"

namespace clearhead::inline CLEARHEAD_REAL {

class Storage {
 public:
  explicit Storage(int64_t numel);  // contents undefined
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Real* data() const { return data_; }
  int64_t numel() const { return numel_; }
  uint64_t version() const { return version_; }  // grows with every Tensor::mut()
  void bump() { ++version_; }

 private:
  Real* data_;
  int64_t numel_;
  uint64_t version_ = 0;
};

struct MemoryStats {
  int64_t live_bytes = 0;   // in tensors now
  int64_t peak_bytes = 0;   // the most there ever was
  int64_t from_system = 0;  // how many times the free list had nothing and the system was asked
};
MemoryStats memory_stats();
void release_free_memory();  // gives the free list back to the system

}  // namespace clearhead::inline CLEARHEAD_REAL
