// Memory from the operating system, on huge pages when it is large. Reading it from end to end then
// costs no address translation. Weights and caches lie in such memory.
#ifndef NG_PAGES_H_
#define NG_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#pragma GCC visibility push(default)
namespace ng {

// [load] Returns `bytes` bytes of zeros, 64-byte aligned, or null when the system does not give
// them; errno then says why. The system gives each page when it is first written. REQUIRES:
// bytes > 0.
std::shared_ptr<std::byte> MapPages(int64_t bytes);

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_PAGES_H_
