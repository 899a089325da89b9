#include "tests/growth/growth.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "tests/growth/count.h"

namespace ng::test {

std::ostream& operator<<(std::ostream& out, const GrowthKind& kind) { return out << kind.name; }

void ExpectGrowthOfTheInput(const GrowthKind& kind) {
  constexpr int kDoublings = 4;
  int64_t before = 0;
  size_t size = kind.size * GrowthScale();
  for (int i = 0; i <= kDoublings; ++i, size *= 2) {
    const std::clock_t begin = std::clock();
    const std::optional<int64_t> cost = kind.cost(size);
    PrintGrowth(kind, size, cost, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    if (!cost && GrowthScale() > 1) return;
    ASSERT_TRUE(cost.has_value()) << size;
    ASSERT_GT(*cost, 0);
    // n log n, and some of every text.
    if (i > 0) {
      EXPECT_LT(*cost, before * 5 / 2 + 4096) << size;
    }
    before = *cost;
  }
}

void PrintGrowth(const GrowthKind& kind, size_t size, std::optional<int64_t> cost, double seconds) {
  if (GrowthScale() == 1) return;
  const std::string counted = cost ? std::to_string(*cost) : "refused";
  std::printf("%-38s %10zu %14s %8.3f s\n", kind.name, size, counted.c_str(), seconds);
}

size_t GrowthScale() {
  const char* const scale = std::getenv("NG_GROWTH");
  return scale == nullptr ? 1 : static_cast<size_t>(std::max(1, std::atoi(scale)));
}

int64_t BytesOf(const std::function<void()>& call) {
  const int64_t before = AllocatedBytes();
  call();
  return AllocatedBytes() - before + 1;
}

int64_t MostBytesOf(const std::function<void()>& call) {
  const int64_t before = BeginMostBytes();
  call();
  return MostBytes() - before + 1;
}

std::string TextTimes(const std::string& text, size_t n) {
  std::string all;
  for (size_t i = 0; i < n; ++i) all += text;
  return all;
}

std::string NameOfGrowth(const testing::TestParamInfo<GrowthKind>& info) {
  std::string name;
  for (const char c : std::string(info.param.name)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
  }
  return name;
}

}  // namespace ng::test
