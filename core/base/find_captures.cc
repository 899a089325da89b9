#include <algorithm>
#include <tuple>

#include "ng/attention_backend.h"

namespace ng {
namespace {

bool Before(const ProbabilityRow& a, const ProbabilityRow& b) {
  return std::tie(a.sequence, a.pos, a.head) < std::tie(b.sequence, b.pos, b.head);
}

}  // namespace

std::span<const ProbabilityRow> FindCaptures(std::span<const ProbabilityRow> sorted,
                                             int32_t sequence, int64_t pos, int32_t head) {
  const ProbabilityRow wanted{.sequence = sequence, .pos = pos, .head = head};
  const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), wanted, Before);
  return {first, last};
}

}  // namespace ng
