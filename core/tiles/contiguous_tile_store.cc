#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ng/tile_store.h"

namespace ng {

ContiguousTileStore::ContiguousTileStore(const PluginContext& context, const CacheSpec& spec,
                                         const PageShape& shape, std::shared_ptr<std::byte> memory)
    : TileStore(context, spec),
      shape_(shape),
      memory_(std::move(memory)),
      n_pages_(static_cast<size_t>((spec.max_tokens - 1) / shape.page_tokens + 1)),
      slots_(static_cast<size_t>(spec.max_sequences)) {
  pages_.reserve(slots_.size() * n_pages_);
  for (size_t i = 0; i < slots_.size(); ++i) {
    pages_.insert(pages_.end(), n_pages_,
                  memory_.get() + static_cast<int64_t>(i) * shape.page_bytes);
  }
}

absl::StatusOr<SequenceId> ContiguousTileStore::Open(int64_t capacity) {
  NG_RETURN_IF_ERROR(CheckCapacity(capacity));
  const auto slot =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.open; });
  if (slot == slots_.end()) {
    return LimitError("all " + std::to_string(slots_.size()) + " sequences of the cache are open");
  }
  *slot = {.open = true, .length = 0, .capacity = capacity};
  return static_cast<SequenceId>(slot - slots_.begin());
}

void ContiguousTileStore::Close(SequenceId sequence) { At(sequence).open = false; }

int64_t ContiguousTileStore::Length(SequenceId sequence) const { return At(sequence).length; }

int64_t ContiguousTileStore::Capacity(SequenceId sequence) const { return At(sequence).capacity; }

absl::Status ContiguousTileStore::Truncate(SequenceId sequence, int64_t length) {
  NG_RETURN_IF_ERROR(CheckTruncation(sequence, length));
  NG_RETURN_IF_ERROR(CheckHeld(sequence, length, FirstHeld(sequence)));
  Slot& slot = At(sequence);
  slot.length = length;
  if (length == 0) slot.written = 0;
  return absl::OkStatus();
}

absl::StatusOr<SequenceId> ContiguousTileStore::Fork(SequenceId sequence, int64_t capacity) {
  NG_RETURN_IF_ERROR(CheckForkCapacity(sequence, capacity));
  NG_ASSIGN_OR_RETURN(const SequenceId fork, Open(capacity));
  const int64_t written = At(sequence).written;
  const int64_t tiles = (std::min(written, shape_.page_tokens) + kTileTokens - 1) / kTileTokens;
  const int64_t page_tiles = shape_.page_tokens / kTileTokens;
  for (int layer = 0; layer < n_layers_; ++layer) {
    for (int head = 0; head < n_kv_heads_; ++head) {
      for (const KvSide& side : {shape_.k, shape_.v}) {
        std::byte* const to = HeadTiles(fork, layer, side, head);
        const std::byte* const from = HeadTiles(sequence, layer, side, head);
        std::memcpy(to, from, static_cast<size_t>(tiles * side.tile_bytes));
        // Bounds, where there are any.
        const int64_t end = page_tiles * side.tile_bytes;
        const int64_t behind = (side.head_stride - end) / page_tiles * tiles;
        std::memcpy(to + end, from + end, static_cast<size_t>(behind));
      }
    }
  }
  At(fork).length = Length(sequence);
  At(fork).written = written;
  return fork;
}

absl::Status ContiguousTileStore::Commit(std::span<const SequenceRows> rows) {
  NG_RETURN_IF_ERROR(CheckFits(rows));
  for (const SequenceRows& entry : rows) At(entry.sequence).length += entry.n_tokens;
  return absl::OkStatus();
}

KvView ContiguousTileStore::View(int layer, SequenceId sequence, int64_t length) const {
  assert(layer >= 0 && layer < n_layers_ && length >= 0 && length <= Capacity(sequence));
  const auto n_pages =
      static_cast<size_t>((std::max<int64_t>(1, length) - 1) / shape_.page_tokens + 1);
  KvView view{.layout = shape_.plan.layout,
              .pages = std::span(pages_).subspan(static_cast<size_t>(sequence) * n_pages_, n_pages),
              .page_tokens = shape_.page_tokens,
              .length = length,
              .k = shape_.k,
              .v = shape_.v,
              .store = this,
              .sequence = sequence,
              .layer = layer,
              .first = FirstHeld(sequence),
              .v_in_k = shape_.plan.v_in_k};
  view.k.offset += layer * shape_.layer_bytes;
  view.v.offset += layer * shape_.layer_bytes;
  return view;
}

absl::Status ContiguousTileStore::MakeRoom(const SequenceRows& rows) {
  int64_t& written = At(rows.sequence).written;
  written = std::max(written, rows.start_pos + rows.n_tokens);
  return absl::OkStatus();
}

// Where there is no window, a sequence's capacity is at most page_tokens.
int64_t ContiguousTileStore::FirstHeld(SequenceId sequence) const {
  return std::max<int64_t>(0, At(sequence).written - shape_.page_tokens);
}

const ContiguousTileStore::Slot& ContiguousTileStore::At(SequenceId sequence) const {
  assert(sequence >= 0 && static_cast<size_t>(sequence) < slots_.size());
  assert(slots_[static_cast<size_t>(sequence)].open);
  return slots_[static_cast<size_t>(sequence)];
}

ContiguousTileStore::Slot& ContiguousTileStore::At(SequenceId sequence) {
  return const_cast<Slot&>(std::as_const(*this).At(sequence));
}

std::byte* ContiguousTileStore::HeadTiles(SequenceId sequence, int layer, const KvSide& side,
                                          int kv_head) {
  return memory_.get() + sequence * shape_.page_bytes + layer * shape_.layer_bytes + side.offset +
         kv_head * side.head_stride;
}

}  // namespace ng
