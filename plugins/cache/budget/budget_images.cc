// The store with a budget: a whole sequence as bytes.
#include <algorithm>
#include <limits>
#include <string>

#include "plugins/cache/budget/budget_store.h"
#include "plugins/cache/budget/head_runs.h"

namespace ng {

void BudgetStore::Walk(SequenceId sequence, SequenceImage& image) {
  Slot& slot = At(sequence);
  int64_t length = slot.length;
  auto rule = static_cast<int64_t>(slot.rule);
  image.Number(length, slot.length, slot.length);  // whoever reads has set it
  image.Number(slot.mark, 0, options_.at_mark ? std::numeric_limits<int32_t>::max() : 0);
  image.Number(rule, 0, std::ssize(rules_) - 1);
  slot.rule = static_cast<size_t>(rule);
  if (image.reads()) {
    ForSums([&](auto& sums) { sums.SetMark(sequence, slot.mark); });
    FindHeld(sequence);
  }
  for (int layer = 0; layer < n_layers_ && image.sound(); ++layer) {
    WalkLayer(sequence, layer, image);
  }
}

// How many tokens have left comes of the length alone.
void BudgetStore::FindHeld(SequenceId sequence) {
  Slot& slot = At(sequence);
  int64_t boundary = slot.length - slot.length % options_.every;
  if (options_.at_mark) boundary = slot.length >= slot.mark ? slot.mark : 0;
  slot.left_at = 0;
  for (int layer = 0; layer < n_layers_; ++layer) {
    const int64_t kept = KeptIn(sequence, layer, boundary);
    held_.At(sequence, layer) = {};
    if (boundary == 0 || kept >= boundary) continue;
    held_.At(sequence, layer) = {.gone = boundary - kept, .kept = kept};
    slot.left_at = boundary;
  }
}

void BudgetStore::WalkLayer(SequenceId sequence, int layer, SequenceImage& image) {
  const int64_t length = At(sequence).length;
  const Held& held = held_.At(sequence, layer);
  const bool uneven = shape_.adaptive && held.gone > 0;
  if (uneven) WalkHeads(sequence, layer, image);
  if (!image.sound()) return;
  const std::span<int32_t> positions =
      OfHead(shape_.positions, sequence, layer, 0, n_kv_heads_ * held.kept);
  image.Bytes(positions.data(), static_cast<int64_t>(positions.size_bytes()));
  const KvView view = View(layer, sequence, length);
  for (int head = 0; head < n_kv_heads_ && image.sound(); ++head) {
    const std::span<const int32_t> kept = view.KeptBy(head);
    const auto rises = [](int32_t a, int32_t b) { return a >= b; };
    image.Must(std::ranges::adjacent_find(kept, rises) == kept.end());
    image.Must(kept.empty() || (kept.front() >= 0 && kept.back() < held.gone + held.kept));
    const int64_t tiles = TilesOf(view.n_slots(head));
    for (const KvSide* side : {&view.k, &view.v}) {
      if (tiles == 0 || (side == &view.v && view.v_in_k)) continue;
      image.Bytes(const_cast<std::byte*>(view.Tile(*side, head, 0)), tiles * side->tile_bytes);
    }
  }
  const auto heads = uneven ? HeadsIn(heads_, sequence, layer) : std::span<HeadSlots>();
  for (const auto& sums : attended_) {
    sums->Walk({sequence, layer, view.n_slots(), heads}, image);
  }
  for (const auto& sums : queries_) sums->Walk(sequence, layer, image);
}

void BudgetStore::WalkHeads(SequenceId sequence, int layer, SequenceImage& image) {
  const Held& held = held_.At(sequence, layer);
  const std::span<HeadSlots> heads = HeadsIn(heads_, sequence, layer);
  const int64_t left_at = held.gone + held.kept;
  int64_t n_kept = 0;
  for (HeadSlots& head : heads) {
    if (image.reads()) head = {};
    image.Number(head.n_kept, 0, std::min(left_at, n_kv_heads_ * held.kept - n_kept));
    n_kept += head.n_kept;
  }
  image.Must(n_kept == n_kv_heads_ * held.kept);
  if (image.reads() && image.sound()) PlaceHeads(left_at, heads);
}

// A walk that counts or writes changes nothing.
int64_t BudgetStore::ImageBytes(SequenceId sequence) const {
  SequenceImage image = SequenceImage::Counting();
  const_cast<BudgetStore*>(this)->Walk(sequence, image);
  return image.size();
}

absl::Status BudgetStore::ExportImage(SequenceId sequence, std::span<std::byte> to) const {
  SequenceImage image = SequenceImage::Writing(to);
  const_cast<BudgetStore*>(this)->Walk(sequence, image);
  if (image.done()) return absl::OkStatus();
  return RuntimeError("the image of sequence " + std::to_string(sequence) + " has " +
                      std::to_string(ImageBytes(sequence)) + " bytes, not " +
                      std::to_string(to.size()));
}

absl::Status BudgetStore::ImportImage(SequenceId sequence, int64_t length,
                                      std::span<const std::byte> from) {
  Slot& slot = At(sequence);
  if (slot.length != 0) {
    return RuntimeError("sequence " + std::to_string(sequence) + " has " +
                        std::to_string(slot.length) + " tokens already, must have none");
  }
  if (length < 0 || length > slot.capacity) {
    return LimitError("an image of " + std::to_string(length) + " tokens for sequence " +
                      std::to_string(sequence) + ", which takes " + std::to_string(slot.capacity));
  }
  const Slot told = slot;
  slot.length = length;
  SequenceImage image = SequenceImage::Reading(from);
  Walk(sequence, image);
  const int64_t mark = slot.mark;
  const bool other = told.mark != 0 && mark != told.mark;
  if (image.done() && !other) return absl::OkStatus();
  NG_RETURN_IF_ERROR(Truncate(sequence, 0));
  slot = told;
  ForSums([&](auto& sums) { sums.SetMark(sequence, told.mark); });
  if (image.done()) {
    return RuntimeError("the image is of a sequence with a context of " + std::to_string(mark) +
                        " tokens, this one has a context of " + std::to_string(told.mark));
  }
  return RuntimeError("the image is none of a sequence of " + std::to_string(length) +
                      " tokens in such a cache");
}

}  // namespace ng
