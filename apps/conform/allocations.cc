#include "apps/conform/allocations.h"

#if defined(__SANITIZE_ADDRESS__)

namespace ng::conform {
std::function<int64_t()> AllocationCounter() { return {}; }
}  // namespace ng::conform

#else

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

std::atomic<int64_t> n_allocations = 0;

void Count() { n_allocations.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

// glibc's own under these names. operator new calls malloc.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  Count();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  Count();
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  Count();
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  Count();
  return __libc_memalign(alignment, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  Count();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  Count();
  void* allocated = __libc_memalign(alignment, size);
  if (allocated == nullptr) return ENOMEM;
  *memory = allocated;
  return 0;
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace ng::conform {
std::function<int64_t()> AllocationCounter() {
  return [] { return n_allocations.load(std::memory_order_relaxed); };
}
}  // namespace ng::conform

#endif
