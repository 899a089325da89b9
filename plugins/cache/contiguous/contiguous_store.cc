#include "plugins/cache/contiguous/contiguous_store.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plugins/cache/tiles/page_shape.h"
#include "plugins/cache/tiles/tile_store.h"

namespace ng {
namespace {

class ContiguousStore : public TileStore {
 public:
  ContiguousStore(const PluginContext& context, const CacheSpec& spec, const PageShape& shape,
                  TileMemory memory)
      : TileStore(context, spec),
        shape_(shape),
        memory_(std::move(memory)),
        slots_(static_cast<size_t>(spec.max_sequences)) {
    pages_.reserve(slots_.size());
    for (size_t i = 0; i < slots_.size(); ++i) {
      pages_.push_back(memory_.get() + static_cast<int64_t>(i) * shape.page_bytes);
    }
  }

  CachePlan plan() const override { return shape_.plan; }

  absl::StatusOr<SequenceId> Open(int64_t capacity) override {
    NG_RETURN_IF_ERROR(CheckCapacity(capacity));
    const auto slot =
        std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.open; });
    if (slot == slots_.end()) {
      return LimitError("all " + std::to_string(slots_.size()) +
                        " sequences of the cache are open");
    }
    *slot = {.open = true, .length = 0, .capacity = capacity};
    return static_cast<SequenceId>(slot - slots_.begin());
  }

  void Close(SequenceId sequence) override { At(sequence).open = false; }

  int64_t Length(SequenceId sequence) const override { return At(sequence).length; }
  int64_t Capacity(SequenceId sequence) const override { return At(sequence).capacity; }

  absl::Status Truncate(SequenceId sequence, int64_t length) override {
    NG_RETURN_IF_ERROR(CheckTruncation(sequence, length));
    At(sequence).length = length;
    return absl::OkStatus();
  }

  absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity) override {
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

  absl::Status Commit(std::span<const SequenceRows> rows) override {
    NG_RETURN_IF_ERROR(CheckFits(rows));
    for (const SequenceRows& entry : rows) At(entry.sequence).length += entry.n_tokens;
    return absl::OkStatus();
  }

  KvView View(int layer, SequenceId sequence, int64_t length) const override {
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

 private:
  struct Slot {
    bool open = false;
    int64_t length = 0;
    int64_t capacity = 0;
  };

  absl::Status MakeRoom(const SequenceRows&) override { return absl::OkStatus(); }

  const Slot& At(SequenceId sequence) const {
    assert(sequence >= 0 && static_cast<size_t>(sequence) < slots_.size());
    assert(slots_[static_cast<size_t>(sequence)].open);
    return slots_[static_cast<size_t>(sequence)];
  }
  Slot& At(SequenceId sequence) { return const_cast<Slot&>(std::as_const(*this).At(sequence)); }

  std::byte* HeadTiles(SequenceId sequence, int layer, const KvSide& side, int kv_head) {
    return memory_.get() + sequence * shape_.page_bytes + layer * shape_.layer_bytes + side.offset +
           kv_head * side.head_stride;
  }

  const PageShape shape_;
  const TileMemory memory_;              // [max_sequences][page_bytes]
  std::vector<const std::byte*> pages_;  // [max_sequences]
  std::vector<Slot> slots_;              // [max_sequences]
};

}  // namespace

absl::StatusOr<CachePlan> PlanContiguousStore(const PluginContext&, const CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(const PageShape shape, MakePageShape(spec));
  return shape.plan;
}

absl::StatusOr<std::unique_ptr<CacheStore>> CreateContiguousStore(const PluginContext& context,
                                                                  const CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(const PageShape shape, MakePageShape(spec));
  NG_ASSIGN_OR_RETURN(TileMemory memory, ReserveTiles(shape.plan.bytes));
  return std::make_unique<ContiguousStore>(context, spec, shape, std::move(memory));
}

}  // namespace ng
