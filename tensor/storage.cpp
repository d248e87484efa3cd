#include "tensor/storage.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

constexpr std::align_val_t alignment{64};

#ifdef __SANITIZE_ADDRESS__
constexpr bool reuse = false;
#else
constexpr bool reuse = true;
#endif

// Eight size classes per power of two: at most 1/8 of a block is wasted, and nearby sizes share blocks.
size_t size_class(int64_t numel) {
  const size_t bytes = std::max<size_t>(size_t(numel) * sizeof(Real), 64);
  const size_t step = std::max<size_t>(std::bit_floor(bytes) / 8, 64);
  return (bytes + step - 1) / step * step;
}

struct FreeList {
  std::mutex mutex;
  std::map<size_t, std::vector<void*>> blocks;
  MemoryStats stats;
};
FreeList& free_list() {
  static auto* list = new FreeList;  // never destroyed: tensors in static variables may outlive it
  return *list;
}

}  // namespace

Storage::Storage(int64_t numel) : numel_(numel) {
  const size_t bytes = size_class(numel);
  FreeList& list = free_list();
  std::lock_guard lock(list.mutex);
  auto& blocks = list.blocks[bytes];
  if (!blocks.empty()) {
    data_ = static_cast<Real*>(blocks.back());
    blocks.pop_back();
  } else {
    data_ = static_cast<Real*>(::operator new(bytes, alignment));
    ++list.stats.from_system;
  }
  list.stats.live_bytes += int64_t(bytes);
  list.stats.peak_bytes = std::max(list.stats.peak_bytes, list.stats.live_bytes);
}

Storage::~Storage() {
  const size_t bytes = size_class(numel_);
  FreeList& list = free_list();
  std::lock_guard lock(list.mutex);
  list.stats.live_bytes -= int64_t(bytes);
  if (reuse)
    list.blocks[bytes].push_back(data_);
  else
    ::operator delete(data_, alignment);
}

MemoryStats memory_stats() {
  std::lock_guard lock(free_list().mutex);
  return free_list().stats;
}

void release_free_memory() {
  std::lock_guard lock(free_list().mutex);
  for (auto& [bytes, blocks] : free_list().blocks) {
    for (void* p : blocks) ::operator delete(p, alignment);
    blocks.clear();
  }
}

}  // namespace clearhead::inline CLEARHEAD_REAL
