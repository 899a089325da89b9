#include "tests/allocation/counting_allocator.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

void CountAllocation() { ng::test::n_allocations.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

#if defined(__SANITIZE_ADDRESS__)

namespace {

void* AlignedAlloc(std::size_t alignment, std::size_t size) {
  CountAllocation();
  return std::aligned_alloc(alignment, size);
}

}  // namespace

#else

#include "apps/conform/counting_malloc-inl.h"

namespace {

void* AlignedAlloc(std::size_t alignment, std::size_t size) {
  return aligned_alloc(alignment, size);
}

}  // namespace

#endif

namespace {

void* Allocate(std::size_t size, std::size_t alignment) {
  // As any operator new: a handler may find memory, and then it is tried again.
  if (ng::test::n_news++ == ng::test::failing_new) {
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment;
  void* memory = AlignedAlloc(alignment, rounded * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Every form, so that none is paired with one of a sanitizer's. Never inlined: GCC 12 would take
// the free() it then sees for a mismatch with operator new.
#define NG_REPLACED __attribute__((noinline))

NG_REPLACED void* operator new(std::size_t size) {
  return Allocate(size, alignof(std::max_align_t));
}
NG_REPLACED void* operator new[](std::size_t size) { return operator new(size); }
NG_REPLACED void* operator new(std::size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<std::size_t>(alignment));
}
NG_REPLACED void* operator new[](std::size_t size, std::align_val_t alignment) {
  return operator new(size, alignment);
}
NG_REPLACED void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
NG_REPLACED void* operator new[](std::size_t size, const std::nothrow_t& nothrow) noexcept {
  return operator new(size, nothrow);
}
NG_REPLACED void operator delete(void* memory) noexcept { std::free(memory); }
NG_REPLACED void operator delete[](void* memory) noexcept { std::free(memory); }
NG_REPLACED void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
NG_REPLACED void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
NG_REPLACED void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
NG_REPLACED void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
NG_REPLACED void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
NG_REPLACED void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
