// This program's malloc and its like, each of which calls CountAllocation(). glibc lets a program
// define them. For one source file of a program, which defines CountAllocation() first; not under a
// sanitizer, whose malloc stays in place.
#ifndef NG_APPS_CONFORM_COUNTING_MALLOC_INL_H_
#define NG_APPS_CONFORM_COUNTING_MALLOC_INL_H_

#include <malloc.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

// glibc's own under these names; the definitions below repeat its declarations. operator new calls
// malloc.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) noexcept {
  CountAllocation();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  CountAllocation();
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) noexcept {
  CountAllocation();
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  CountAllocation();
  return __libc_memalign(alignment, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  CountAllocation();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  CountAllocation();
  void* allocated = __libc_memalign(alignment, size);
  if (allocated == nullptr) return ENOMEM;
  *memory = allocated;
  return 0;
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#endif  // NG_APPS_CONFORM_COUNTING_MALLOC_INL_H_
