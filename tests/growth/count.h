// Counts what a program allocates, for tests of growth.
#ifndef NG_TESTS_GROWTH_COUNT_H_
#define NG_TESTS_GROWTH_COUNT_H_

#include <cstdint>

namespace ng::test {

// All bytes that operator new has given since the program began.
int64_t AllocatedBytes();
// The most bytes that were in use since the last call of BeginMostBytes, which returns those in
// use.
int64_t MostBytes();
int64_t BeginMostBytes();

}  // namespace ng::test

#endif  // NG_TESTS_GROWTH_COUNT_H_
