#include "core/kernels/sent_rows.h"

#include <cstring>

namespace ng {
namespace {

int64_t GroupsOf(int64_t k) { return (k + kQuantBlock - 1) / kQuantBlock; }

// The only q = 16 * high + low with -8 <= low <= 7.
void Split(SplitInput* group) {
  for (int64_t i = 0; i < kQuantBlock; ++i) {
    const int high = (group->q[i] + 8) >> 4;
    group->high[i] = static_cast<int8_t>(high);
    group->low[i] = static_cast<int8_t>(group->q[i] - 16 * high);
  }
}

}  // namespace

void RoundSent(const KernelTable& kernels, WeightType w, const float* x, int64_t k, std::byte* room,
               std::byte* sent) {
  const auto prepare = kernels.prepare[static_cast<size_t>(w)];
  if (kernels.input[static_cast<size_t>(w)] != InputType::kInt8Split) {
    prepare(x, k, sent);
    return;
  }
  prepare(x, k, room);
  for (int64_t i = 0; i < GroupsOf(k); ++i) {
    std::memcpy(sent + i * int64_t{sizeof(QuantizedInput)}, room + i * int64_t{sizeof(SplitInput)},
                sizeof(QuantizedInput));
  }
}

void UnpackSent(InputType type, const std::byte* sent, int64_t k, std::byte* row) {
  if (type != InputType::kInt8Split) {
    std::memcpy(row, sent, static_cast<size_t>(InputRowBytes(type, k)));
    return;
  }
  for (int64_t i = 0; i < GroupsOf(k); ++i) {
    SplitInput group;
    std::memcpy(static_cast<QuantizedInput*>(&group), sent + i * int64_t{sizeof(QuantizedInput)},
                sizeof(QuantizedInput));
    Split(&group);
    std::memcpy(row + i * int64_t{sizeof(SplitInput)}, &group, sizeof(group));
  }
}

}  // namespace ng
