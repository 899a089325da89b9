#include "core/model/rows/router.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace ng {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void Softmax(std::span<float> x) {
  const float most = *std::ranges::max_element(x);
  float sum = 0.0F;
  for (float& value : x) sum += value = std::exp(value - most);
  for (float& value : x) value /= sum;
}

size_t IndexOfLargest(std::span<const float> x) {
  return static_cast<size_t>(std::ranges::max_element(x) - x.begin());
}

// The sum of the two largest, or the largest.
float Best(int n, std::span<const float> x) {
  float first = kNever;
  float second = kNever;
  for (const float value : x) {
    second = std::max(second, std::min(first, value));
    first = std::max(first, value);
  }
  return n == 1 ? first : first + second;
}

// Leaves the groups that are used; in the others no expert is chosen. Only some of all groups are
// used, so the best of those that are left is looked for again and again.
void DropGroups(const RouterSpec& router, std::span<float> compared) {
  const auto size = static_cast<size_t>(router.group_size());
  const auto group = [&](int i) { return compared.subspan(static_cast<size_t>(i) * size, size); };
  for (int n_left = router.n_groups; n_left > router.n_groups_used; --n_left) {
    int worst = -1;  // of equal ones the last
    float least = 0.0F;
    for (int i = 0; i < router.n_groups; ++i) {
      const float sum = Best(router.n_best, group(i));
      if (sum == kNever || (worst >= 0 && sum > least)) continue;
      worst = i;
      least = sum;
    }
    if (worst < 0) return;
    std::ranges::fill(group(worst), kNever);
  }
}

}  // namespace

float Sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

void Route(const RouterSpec& router, const RouterRow& row) {
  if (router.logit_scale != 1.0F) {
    for (float& logit : row.scores) logit *= router.logit_scale;
  }
  if (router.weighs_input) std::ranges::copy(row.scores, row.compared.begin());
  if (router.sigmoid) {
    for (float& score : row.scores) score = Sigmoid(score);
  } else {
    Softmax(row.scores);
  }
  if (!router.weighs_input) std::ranges::copy(row.scores, row.compared.begin());
  for (size_t i = 0; i < row.selection_bias.size(); ++i) row.compared[i] += row.selection_bias[i];
  if (router.n_groups_used < router.n_groups) DropGroups(router, row.compared);
  float sum = 0.0F;
  for (size_t i = 0; i < row.chosen.size(); ++i) {
    const size_t best = IndexOfLargest(row.compared);
    row.compared[best] = kNever;
    row.chosen[i] = static_cast<int32_t>(best);
    row.weights[i] = row.scores[best];
    sum += row.scores[best];
  }
  for (float& weight : row.weights) {
    if (router.normalised) weight /= std::max(sum + router.added_to_sum, router.least_sum);
    weight *= router.scale;
  }
  for (size_t i = 0; i < row.chosen.size() && !row.expert_scales.empty(); ++i) {
    row.weights[i] *= row.expert_scales[static_cast<size_t>(row.chosen[i])];
  }
}

}  // namespace ng
