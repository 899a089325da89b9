// Counts the allocations of this program and of the plugins in it: glibc lets a program define
// malloc. Under AddressSanitizer, whose malloc stays in place, nobody counts.
#ifndef NG_APPS_CONFORM_ALLOCATIONS_H_
#define NG_APPS_CONFORM_ALLOCATIONS_H_

#include <cstdint>
#include <functional>

namespace ng::conform {

// Says how many there were so far, by any thread; empty where nobody counts.
std::function<int64_t()> AllocationCounter();

}  // namespace ng::conform

#endif  // NG_APPS_CONFORM_ALLOCATIONS_H_
