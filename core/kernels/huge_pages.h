// Memory from the operating system, on huge pages when it is large. Reading it from end to end then
// costs no address translation.
#ifndef NG_CORE_KERNELS_HUGE_PAGES_H_
#define NG_CORE_KERNELS_HUGE_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ng {

// Returns `bytes` bytes of zeros, 64-byte aligned, or null when the system does not give them. The
// system gives each page when it is first written.
std::shared_ptr<std::byte> MapPages(int64_t bytes);

}  // namespace ng

#endif  // NG_CORE_KERNELS_HUGE_PAGES_H_
