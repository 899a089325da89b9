// Counts this program's allocations and can make one fail. The program's own malloc and operator
// new, so it is linked into nothing but the allocation tests.
#ifndef NG_TESTS_ALLOCATION_COUNTING_ALLOCATOR_H_
#define NG_TESTS_ALLOCATION_COUNTING_ALLOCATOR_H_

#include <atomic>
#include <cstdint>

namespace ng::test {

// Calls of operator new by this thread.
inline thread_local int64_t n_news = 0;
// The number of the one among them that throws bad_alloc; negative: none does.
inline thread_local int64_t failing_new = -1;
// All allocations by any thread, by malloc and its like too (under a sanitizer, whose malloc stays
// in place, by operator new only).
inline std::atomic<int64_t> n_allocations = 0;

}  // namespace ng::test

#endif  // NG_TESTS_ALLOCATION_COUNTING_ALLOCATOR_H_
