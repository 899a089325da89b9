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
      slots_(static_cast<size_t>(spec.max_sequences)) {
  pages_.reserve(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    pages_.push_back(memory_.get() + static_cast<int64_t>(i) * shape.page_bytes);
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
  At(sequence).length = length;
  return absl::OkStatus();
}

absl::StatusOr<SequenceId> ContiguousTileStore::Fork(SequenceId sequence, int64_t capacity) {
  NG_RETURN_IF_ERROR(CheckForkCapacity(sequence, capacity));
  NG_ASSIGN_OR_RETURN(const SequenceId fork, Open(capacity));
  const int64_t length = Length(sequence);
  const int64_t tiles = (length + kTileTokens - 1) / kTileTokens;
  for (int layer = 0; layer < n_layers_; ++layer) {
    for (int head = 0; head < n_kv_heads_; ++head) {
      for (const KvSide& side : {shape_.k, shape_.v}) {
        std::memcpy(HeadTiles(fork, layer, side, head), HeadTiles(sequence, layer, side, head),
                    static_cast<size_t>(tiles * side.tile_bytes));
      }
    }
  }
  At(fork).length = length;
  return fork;
}

absl::Status ContiguousTileStore::Commit(std::span<const SequenceRows> rows) {
  NG_RETURN_IF_ERROR(CheckFits(rows));
  for (const SequenceRows& entry : rows) At(entry.sequence).length += entry.n_tokens;
  return absl::OkStatus();
}

KvView ContiguousTileStore::View(int layer, SequenceId sequence, int64_t length) const {
  assert(layer >= 0 && layer < n_layers_ && length >= 0 && length <= Capacity(sequence));
  KvView view{.layout = kLayoutTiles16,
              .pages = std::span(pages_).subspan(static_cast<size_t>(sequence), 1),
              .page_tokens = shape_.page_tokens,
              .length = length,
              .k = shape_.k,
              .v = shape_.v,
              .store = this,
              .sequence = sequence,
              .layer = layer};
  view.k.offset += layer * shape_.layer_bytes;
  view.v.offset += layer * shape_.layer_bytes;
  return view;
}

absl::Status ContiguousTileStore::MakeRoom(const SequenceRows&) { return absl::OkStatus(); }

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
