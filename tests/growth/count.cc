#include "tests/growth/count.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocated = 0;

void* Allocate(std::size_t size, std::size_t alignment) {
  allocated.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment;
  void* const memory = std::aligned_alloc(alignment, rounded * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace ng::test {

int64_t AllocatedBytes() { return allocated.load(std::memory_order_relaxed); }

}  // namespace ng::test

void* operator new(std::size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
