#include "plugins/cache/contiguous/contiguous_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "ng/executor.h"
#include "plugins/cache/tiles/page_shape.h"
#include "plugins/cache/tiles/tile_writer.h"

namespace ng {
namespace {

// Below this many floats an Append is done before other threads would wake up.
constexpr int64_t kParallelFloats = 16384;
// From here on the memory asks for huge pages: decode reads all of it for every token, and with
// small pages the address translations of a long sequence no longer fit the processor's tables.
constexpr size_t kHugePageBytes = size_t{2} << 20;

struct Unmap {
  size_t bytes;
  void operator()(std::byte* memory) const { munmap(memory, bytes); }
};
using Mapping = std::unique_ptr<std::byte, Unmap>;

absl::StatusOr<Mapping> Reserve(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return LimitError(
        "the cache needs " + std::to_string(bytes) +
        " bytes, which the system does not give: " + std::generic_category().message(errno));
  }
  // Advice: where the system does not take it, small pages hold the same bytes.
  if (size >= kHugePageBytes) madvise(memory, size, MADV_HUGEPAGE);
  return Mapping(static_cast<std::byte*>(memory), Unmap{size});
}

class ContiguousStore : public CacheStore {
 public:
  ContiguousStore(const PluginContext& context, const CacheSpec& spec, const PageShape& shape,
                  Mapping memory)
      : executor_(*context.executor),
        n_kv_heads_(spec.n_kv_heads),
        head_dim_(spec.head_dim),
        max_tokens_(spec.max_tokens),
        shape_(shape),
        n_layers_(spec.n_layers),
        key_writer_(spec.codec_k, spec.head_dim, context.isa),
        value_writer_(spec.codec_v, spec.head_dim, context.isa),
        memory_(std::move(memory)),
        slots_(static_cast<size_t>(spec.max_sequences)) {
    pages_.reserve(slots_.size());
    for (size_t i = 0; i < slots_.size(); ++i) {
      pages_.push_back(memory_.get() + static_cast<int64_t>(i) * shape.page_bytes);
    }
  }

  CachePlan plan() const override { return shape_.plan; }

  absl::StatusOr<SequenceId> Open(int64_t capacity) override {
    if (capacity < 0 || capacity > max_tokens_) {
      return LimitError("a sequence of " + std::to_string(capacity) +
                        " tokens does not fit: the cache holds 0 to " +
                        std::to_string(max_tokens_) + " per sequence");
    }
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
    Slot& slot = At(sequence);
    if (length < 0 || length > slot.length) {
      return RuntimeError("cannot truncate sequence " + std::to_string(sequence) + " to " +
                          std::to_string(length) + " tokens: it holds " +
                          std::to_string(slot.length));
    }
    slot.length = length;
    return absl::OkStatus();
  }

  absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity) override {
    const int64_t length = Length(sequence);
    if (capacity < length) {
      return LimitError("a fork of " + std::to_string(capacity) + " tokens cannot hold the " +
                        std::to_string(length) + " tokens of sequence " + std::to_string(sequence));
    }
    NG_ASSIGN_OR_RETURN(const SequenceId fork, Open(capacity));
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

  absl::Status Append(int layer, std::span<const SequenceRows> rows,
                      const TensorView<const float, 3>& k,
                      const TensorView<const float, 3>& v) override {
    int64_t n_tokens = 0;
    for (const SequenceRows& entry : rows) {
      NG_RETURN_IF_ERROR(CheckFits(entry));
      n_tokens += entry.n_tokens;
    }
    const auto write = [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        WriteHead(layer, rows[static_cast<size_t>(i / n_kv_heads_)],
                  static_cast<int>(i % n_kv_heads_), k, v);
      }
    };
    const int64_t n_items = static_cast<int64_t>(rows.size()) * n_kv_heads_;
    if (n_tokens * n_kv_heads_ * head_dim_ >= kParallelFloats) {
      return ParallelFor(executor_, n_items, write);
    }
    write(0, n_items, 0);
    return absl::OkStatus();
  }

  absl::Status Commit(std::span<const SequenceRows> rows) override {
    for (const SequenceRows& entry : rows) NG_RETURN_IF_ERROR(CheckFits(entry));
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

  void CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
               float* out) const override {
    const int64_t tile = token / kTileTokens;
    const int slot = static_cast<int>(token % kTileTokens);
    if (part == KvPart::kKey) {
      const std::byte* keys = view.Tile(view.k, kv_head, tile);
      for (int d = 0; d < head_dim_; ++d) out[d] = key_writer_.ReadKey(keys, slot, d);
    } else {
      const std::byte* values = view.Tile(view.v, kv_head, tile);
      for (int d = 0; d < head_dim_; ++d) out[d] = value_writer_.ReadValue(values, slot, d);
    }
  }

 private:
  struct Slot {
    bool open = false;
    int64_t length = 0;
    int64_t capacity = 0;
  };

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

  absl::Status CheckFits(const SequenceRows& entry) const {
    const Slot& slot = At(entry.sequence);
    if (entry.start_pos != slot.length || entry.n_tokens < 0) {
      return RuntimeError("sequence " + std::to_string(entry.sequence) + " holds " +
                          std::to_string(slot.length) + " tokens: cannot add " +
                          std::to_string(entry.n_tokens) + " at position " +
                          std::to_string(entry.start_pos));
    }
    if (entry.n_tokens > slot.capacity - slot.length) {
      return LimitError("cache overflow: sequence " + std::to_string(entry.sequence) + " holds " +
                        std::to_string(slot.length) + " of " + std::to_string(slot.capacity) +
                        " tokens, cannot take " + std::to_string(entry.n_tokens) + " more");
    }
    return absl::OkStatus();
  }

  // Writes the rows of one sequence and kv head, tile by tile. [worker]
  void WriteHead(int layer, const SequenceRows& entry, int kv_head,
                 const TensorView<const float, 3>& k, const TensorView<const float, 3>& v) {
    std::byte* keys = HeadTiles(entry.sequence, layer, shape_.k, kv_head);
    std::byte* values = HeadTiles(entry.sequence, layer, shape_.v, kv_head);
    for (int64_t done = 0; done < entry.n_tokens;) {
      const int64_t token = entry.start_pos + done;
      const int64_t tile = token / kTileTokens;
      TileRows source;
      source.slot = static_cast<int>(token % kTileTokens);
      source.n_rows = static_cast<int>(std::min(kTileTokens - source.slot, entry.n_tokens - done));
      source.rows = k.Row(entry.row_begin + done, kv_head);
      source.row_stride = k.stride[0];
      key_writer_.WriteKeys(source, keys + tile * shape_.k.tile_bytes);
      source.rows = v.Row(entry.row_begin + done, kv_head);
      source.row_stride = v.stride[0];
      value_writer_.WriteValues(source, values + tile * shape_.v.tile_bytes);
      done += source.n_rows;
    }
  }

  Executor& executor_;
  const int n_kv_heads_;
  const int head_dim_;
  const int64_t max_tokens_;
  const PageShape shape_;
  const int n_layers_;
  const TileWriter key_writer_;
  const TileWriter value_writer_;
  const Mapping memory_;                 // [max_sequences][page_bytes]
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
  NG_ASSIGN_OR_RETURN(Mapping memory, Reserve(shape.plan.bytes));
  return std::make_unique<ContiguousStore>(context, spec, shape, std::move(memory));
}

}  // namespace ng
