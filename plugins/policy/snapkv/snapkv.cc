#include "plugins/policy/snapkv/snapkv.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

namespace ng {

absl::Status SnapkvPolicy::Score(const HeldTokens& tokens, std::span<float> scores) const {
  const std::span<const int32_t> positions = tokens.positions;
  const auto window =
      std::lower_bound(positions.begin(), positions.end(), tokens.length - queries_);
  const int64_t n_before = window - positions.begin();
  for (int64_t i = 0; i < n_before; ++i) {
    double sum = 0.0;
    float most = 0.0F;  // attention is never less
    for (int64_t j = std::max<int64_t>(0, i - side_); j <= std::min(n_before - 1, i + side_); ++j) {
      const float share = tokens.attended[static_cast<size_t>(j)];
      sum += double{share};
      most = std::max(most, share);
    }
    const auto mean = static_cast<float>(sum / static_cast<double>(2 * side_ + 1));
    scores[static_cast<size_t>(i)] = largest_ ? most : mean;
  }
  std::ranges::fill(scores.subspan(static_cast<size_t>(n_before)),
                    std::numeric_limits<float>::infinity());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Policy>> CreateSnapkvPolicy(const PluginContext& context) {
  const int64_t kernel = context.options.Int("kernel");
  if (kernel % 2 == 0) {
    return UsageError("policy.snapkv.kernel = " + std::to_string(kernel) +
                      ", must be an odd number");
  }
  return std::make_unique<SnapkvPolicy>(context.options.Int("queries"), kernel,
                                        context.options.Text("pool") == "max");
}

}  // namespace ng
