// Takes a kind of input at doubled sizes: what is counted may grow little more than the input does.
//
// NG_GROWTH=64 makes all inputs 64 times as large and prints a row for each size: by hand.
#ifndef NG_TESTS_GROWTH_GROWTH_H_
#define NG_TESTS_GROWTH_GROWTH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "gtest/gtest.h"

namespace ng::test {

struct GrowthKind {
  const char* name;
  size_t size;  // the smallest
  // What is counted; nothing where the input is refused, which only inputs by hand may be.
  std::function<std::optional<int64_t>(size_t size)> cost;
};
std::ostream& operator<<(std::ostream& out, const GrowthKind& kind);

// Fails where the cost grows faster than the input.
void ExpectGrowthOfTheInput(const GrowthKind& kind);
// Prints a row, by hand alone.
void PrintGrowth(const GrowthKind& kind, size_t size, std::optional<int64_t> cost, double seconds);

// How much larger a run by hand is.
size_t GrowthScale();
// The bytes that a call allocates.
int64_t BytesOf(const std::function<void()>& call);
// The most of them that are in use at once.
int64_t MostBytesOf(const std::function<void()>& call);
std::string TextTimes(const std::string& text, size_t n);
// A name for a test, of letters and digits.
std::string NameOfGrowth(const testing::TestParamInfo<GrowthKind>& info);

}  // namespace ng::test

#endif  // NG_TESTS_GROWTH_GROWTH_H_
