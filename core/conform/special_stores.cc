#include "core/conform/special_stores.h"

#include <algorithm>
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

SlotStore::SlotStore(const CacheSpec& spec, bool uneven)
    : ScatteredStore(spec),
      uneven_(uneven),
      shown_(static_cast<size_t>(spec.max_sequences * spec.n_layers)) {}

CachePlan SlotStore::plan() const {
  CachePlan plan = ScatteredStore::plan();
  plan.image_tile_bytes = 0;
  plan.boundary_tokens = kSlotBoundary;
  plan.slots = std::max<int64_t>(1, spec_.max_tokens);
  if (uneven_) plan.head_slots = plan.slots;
  return plan;
}

KvView SlotStore::View(int layer, SequenceId sequence, int64_t length) const {
  const KvView all = ScatteredStore::View(layer, sequence, length);
  const int64_t boundary = Length(sequence) / kSlotBoundary * kSlotBoundary;
  if (boundary == 0) return all;
  const int64_t place = int64_t{sequence} * spec_.n_layers + layer;
  Shown& shown = shown_[static_cast<size_t>(place)];
  KvView view = all;
  shown.positions.clear();
  shown.heads.clear();
  for (int head = 0; head < spec_.n_kv_heads; ++head) {
    const auto before = std::ssize(shown.positions);
    for (int64_t token = 0; token < boundary; ++token) {
      if (!Leaves(head, token, uneven_)) shown.positions.push_back(static_cast<int32_t>(token));
    }
    const int64_t n_kept = std::ssize(shown.positions) - before;
    shown.heads.push_back({boundary - n_kept, n_kept, before, head});
  }
  const auto by_gone = [](const HeadSlots& a, const HeadSlots& b) { return a.gone < b.gone; };
  view.gone = std::ranges::min_element(shown.heads, by_gone)->gone;
  view.n_kept = boundary - view.gone;
  if (uneven_) view.heads = shown.heads;
  view.positions = shown.positions;
  view.page_tokens = kTileTokens;
  const int64_t page_bytes = std::max(view.k.offset + spec_.n_kv_heads * view.k.head_stride,
                                      view.v.offset + spec_.n_kv_heads * view.v.head_stride);
  const int64_t n_pages = (view.n_slots() + kTileTokens - 1) / kTileTokens + spec_.n_kv_heads - 1;
  shown.memory.assign(static_cast<size_t>(n_pages),
                      std::vector<std::byte>(static_cast<size_t>(page_bytes), std::byte{0xFF}));
  shown.pages.clear();
  for (const auto& page : shown.memory) shown.pages.push_back(page.data());
  view.pages = shown.pages;
  std::vector<float> row(static_cast<size_t>(std::max(spec_.head_dim, spec_.value_dim())));
  for (int head = 0; head < spec_.n_kv_heads; ++head) {
    for (int64_t slot = 0; slot < view.n_slots(head); ++slot) {
      for (const KvPart part : {KvPart::kKey, KvPart::kValue}) {
        const KvSide& side = part == KvPart::kKey ? view.k : view.v;
        const Tiles16Side own = Side(part);
        ReadTiles16Row(own.part, all, view.TokenAt(head, slot), head, own.head_dim, row.data());
        const std::byte* const tile = view.Tile(side, head, slot / kTileTokens);
        WriteTiles16Row(own, row.data(), slot % kTileTokens, const_cast<std::byte*>(tile));
      }
    }
  }
  return view;
}

}  // namespace ng::conform
