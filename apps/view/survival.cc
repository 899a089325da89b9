#include "apps/view/survival.h"

#include <algorithm>

namespace ng::view {

void Survival::Add(const HeldPositions& held) {
  heads_.resize(held.heads.size());
  for (size_t i = 0; i < heads_.size(); ++i) {
    const HeldPositions::Head& of = held.heads[i];
    Head& head = heads_[i];
    head.layer = of.layer;
    head.kv_head = of.kv_head;
    n_layers_ = std::max<int64_t>(n_layers_, of.layer + 1);
    n_kv_heads_ = std::max<int64_t>(n_kv_heads_, of.kv_head + 1);
    const auto length = static_cast<size_t>(held.length);
    if (head.left_at.size() < length) head.left_at.resize(length, kNotLeft);
    auto next = of.positions.begin();
    for (int32_t position = 0; position < held.length; ++position) {
      if (next != of.positions.end() && *next == position) {
        ++next;
        continue;
      }
      int32_t& left_at = head.left_at[static_cast<size_t>(position)];
      if (left_at == kNotLeft) left_at = static_cast<int32_t>(held.length);
    }
  }
}

std::vector<int32_t> Survival::LeftAt(int64_t n_tokens) const {
  std::vector<int32_t> all(static_cast<size_t>(n_layers_ * n_kv_heads_ * n_tokens), kNoHead);
  for (const Head& head : heads_) {
    const auto to = all.begin() + (head.layer * n_kv_heads_ + head.kv_head) * n_tokens;
    std::fill_n(to, n_tokens, kNotLeft);
    std::copy_n(head.left_at.begin(), std::min<int64_t>(n_tokens, std::ssize(head.left_at)), to);
  }
  return all;
}

}  // namespace ng::view
