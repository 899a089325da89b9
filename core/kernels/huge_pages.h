// Memory from the operating system, on huge pages where it is large: streaming through it then
// costs no address translation.
#ifndef NG_CORE_KERNELS_HUGE_PAGES_H_
#define NG_CORE_KERNELS_HUGE_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ng {

// `bytes` of zeros, 64-byte aligned; null when they cannot be had. A page is taken when it is first
// written.
std::shared_ptr<std::byte> MapPages(int64_t bytes);

}  // namespace ng

#endif  // NG_CORE_KERNELS_HUGE_PAGES_H_
