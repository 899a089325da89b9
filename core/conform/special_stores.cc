#include "core/conform/special_stores.h"

#include <stdexcept>
#include <string>

namespace ng::conform {

HoleStore::HoleStore(const CacheSpec& spec)
    : ScatteredStore(spec), pages_(static_cast<size_t>(spec.max_sequences)) {
  present_.resize(static_cast<size_t>(spec.max_tokens / 64 + 1));
  for (int64_t t = 0; t < spec.max_tokens; ++t) {
    if (!IsHole(t)) present_[static_cast<size_t>(t / 64)] |= uint64_t{1} << (t % 64);
  }
}

CachePlan HoleStore::plan() const {
  CachePlan plan = ScatteredStore::plan();
  plan.image_tile_bytes = 0;
  plan.approximate = plan.holes = true;
  return plan;
}

absl::Status HoleStore::Append(int layer, std::span<const SequenceRows> rows,
                               const TensorView<const float, 3>& k,
                               const TensorView<const float, 3>& v) {
  NG_RETURN_IF_ERROR(ScatteredStore::Append(layer, rows, k, v));
  for (const SequenceRows& entry : rows) {
    for (int64_t t = entry.start_pos; t < entry.start_pos + entry.n_tokens; ++t) {
      if (IsHole(t)) Poison(At(entry.sequence), layer, t, t + 1);
    }
  }
  return absl::OkStatus();
}

KvView HoleStore::View(int layer, SequenceId sequence, int64_t length) const {
  KvView view = ScatteredStore::View(layer, sequence, length);
  auto& pages = pages_[static_cast<size_t>(sequence)];
  pages.assign(view.pages.begin(), view.pages.end());
  for (size_t page = 0; page < pages.size(); ++page) {
    bool held = false;
    for (int64_t t = 0; t < kTileTokens; ++t) {
      held = held || !IsHole(static_cast<int64_t>(page) * kTileTokens + t);
    }
    if (!held) pages[page] = nullptr;
  }
  view.pages = pages;
  view.present = present_;
  return view;
}

void HoleStore::CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
                        float* out) const {
  if (!view.Holds(token)) {
    throw std::logic_error("CopyRow is asked for token " + std::to_string(token) +
                           ", which is not held");
  }
  ScatteredStore::CopyRow(part, view, token, kv_head, out);
}

}  // namespace ng::conform
