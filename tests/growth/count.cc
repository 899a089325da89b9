#include "tests/growth/count.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocated = 0;
std::atomic<int64_t> in_use = 0;
std::atomic<int64_t> most_in_use = 0;

void Count(int64_t bytes) {
  const int64_t now = in_use.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t most = most_in_use.load(std::memory_order_relaxed);
  while (now > most && !most_in_use.compare_exchange_weak(most, now)) {
  }
}

void* Allocate(std::size_t size, std::size_t alignment) {
  allocated.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment;
  void* const memory = std::aligned_alloc(alignment, rounded * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  Count(static_cast<int64_t>(malloc_usable_size(memory)));
  return memory;
}

void Free(void* memory) noexcept {
  Count(-static_cast<int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}

}  // namespace

namespace ng::test {

int64_t AllocatedBytes() { return allocated.load(std::memory_order_relaxed); }

int64_t MostBytes() { return most_in_use; }

int64_t BeginMostBytes() {
  most_in_use = in_use.load();
  return most_in_use;
}

}  // namespace ng::test

void* operator new(std::size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete(void* memory, std::size_t) noexcept { Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { Free(memory); }
