#include "ng/tile_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include "ng/pages.h"

namespace ng {
namespace {

// Below this many floats an Append is done before other threads would wake up.
constexpr int64_t kParallelFloats = 16384;

int64_t TilesFor(int64_t n_tokens) { return (n_tokens + kTileTokens - 1) / kTileTokens; }

// Readers' views are read-only; the memory is the store's own.
std::byte* WritableTile(const KvView& view, const KvSide& side, int kv_head, int64_t tile) {
  return const_cast<std::byte*>(view.Tile(side, kv_head, tile));
}

// Writes the bounds of a tile that has all its rows, where the view's layout has bounds.
void BoundTile(const TileWriter& writer, const KvView& view, int kv_head, int64_t tile,
               int64_t head_dim) {
  if (view.layout != kLayoutTiles16Bounds) return;
  writer.WriteBounds(view.Tile(view.k, kv_head, tile),
                     const_cast<std::byte*>(BoundsOf(view, kv_head, tile, head_dim)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<std::byte>> ReserveTiles(int64_t bytes) {
  std::shared_ptr<std::byte> memory = MapPages(bytes);
  if (memory != nullptr) return memory;
  return LimitError(
      "the cache needs " + std::to_string(bytes) +
      " bytes, which the system does not give: " + std::generic_category().message(errno));
}

TileStore::TileStore(const PluginContext& context, const CacheSpec& spec)
    : n_layers_(spec.n_layers),
      n_kv_heads_(spec.n_kv_heads),
      max_tokens_(spec.max_tokens),
      window_(spec.held_tokens() < spec.max_tokens ? spec.window : 0),
      executor_(*context.executor),
      max_step_tokens_(spec.max_step_tokens),
      head_dim_(spec.head_dim),
      value_dim_(spec.value_dim()),
      v_in_k_(spec.v_in_k && spec.codec_k == spec.codec_v),
      key_writer_(spec.codec_k, spec.head_dim, context.isa),
      value_writer_(spec.codec_v, spec.value_dim(), context.isa) {}

void* TileStore::Capability(std::string_view name) {
  return OfferCapability<Snapshots>(this, name);
}

absl::Status TileStore::CheckCapacity(int64_t capacity) const {
  if (capacity >= 0 && capacity <= max_tokens_) return absl::OkStatus();
  return LimitError("a sequence of " + std::to_string(capacity) +
                    " tokens does not fit: the cache holds 0 to " + std::to_string(max_tokens_) +
                    " per sequence");
}

absl::Status TileStore::CheckForkCapacity(SequenceId sequence, int64_t capacity) const {
  const int64_t length = Length(sequence);
  if (capacity >= length) return CheckCapacity(capacity);
  return LimitError("a fork of " + std::to_string(capacity) + " tokens cannot hold the " +
                    std::to_string(length) + " tokens of sequence " + std::to_string(sequence));
}

absl::Status TileStore::CheckTruncation(SequenceId sequence, int64_t length) const {
  const int64_t held = Length(sequence);
  if (length >= 0 && length <= held) return absl::OkStatus();
  return RuntimeError("cannot truncate sequence " + std::to_string(sequence) + " to " +
                      std::to_string(length) + " tokens: it holds " + std::to_string(held));
}

absl::Status TileStore::CheckHeld(SequenceId sequence, int64_t length, int64_t first) const {
  if (length == 0 || window_ == 0 || first <= std::max<int64_t>(0, length - window_ + 1)) {
    return absl::OkStatus();
  }
  return UnsupportedError("cannot truncate sequence " + std::to_string(sequence) + " to " +
                          std::to_string(length) + " tokens: of a window of " +
                          std::to_string(window_) + " those before " + std::to_string(first) +
                          " are no longer held");
}

absl::Status TileStore::CheckFits(std::span<const SequenceRows> rows) const {
  for (const SequenceRows& entry : rows) {
    const int64_t length = Length(entry.sequence);
    const int64_t capacity = Capacity(entry.sequence);
    if (entry.start_pos != length || entry.n_tokens < 0) {
      return RuntimeError("sequence " + std::to_string(entry.sequence) + " holds " +
                          std::to_string(length) + " tokens: cannot add " +
                          std::to_string(entry.n_tokens) + " at position " +
                          std::to_string(entry.start_pos));
    }
    if (entry.n_tokens > capacity - length) {
      return LimitError("cache overflow: sequence " + std::to_string(entry.sequence) + " holds " +
                        std::to_string(length) + " of " + std::to_string(capacity) +
                        " tokens, cannot take " + std::to_string(entry.n_tokens) + " more");
    }
    if (window_ > 0 && entry.n_tokens > max_step_tokens_) {
      return LimitError("a step of " + std::to_string(entry.n_tokens) + " tokens of sequence " +
                        std::to_string(entry.sequence) + ": the cache holds a window of " +
                        std::to_string(window_) + " and takes at most " +
                        std::to_string(max_step_tokens_) + " at a time");
    }
  }
  return absl::OkStatus();
}

absl::Status TileStore::Append(int layer, std::span<const SequenceRows> rows,
                               const TensorView<const float, 3>& k,
                               const TensorView<const float, 3>& v) {
  NG_RETURN_IF_ERROR(CheckFits(rows));
  for (const SequenceRows& entry : rows) NG_RETURN_IF_ERROR(MakeRoom(entry));
  int64_t n_tokens = 0;
  for (const SequenceRows& entry : rows) n_tokens += entry.n_tokens;
  const auto write = [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const SequenceRows& entry = rows[static_cast<size_t>(i / n_kv_heads_)];
      const KvView view = View(layer, entry.sequence, entry.start_pos + entry.n_tokens);
      WriteHead(view, entry, static_cast<int>(i % n_kv_heads_), k, v);
    }
  };
  const int64_t n_items = static_cast<int64_t>(rows.size()) * n_kv_heads_;
  if (n_tokens * n_kv_heads_ * head_dim_ >= kParallelFloats) {
    return ParallelFor(executor_, n_items, write);
  }
  write(0, n_items, 0);
  return absl::OkStatus();
}

void TileStore::WriteHead(const KvView& view, const SequenceRows& entry, int kv_head,
                          const TensorView<const float, 3>& k,
                          const TensorView<const float, 3>& v) const {
  const auto tile_at = [&](const KvSide& side, int64_t tile) {
    return WritableTile(view, side, kv_head, tile);
  };
  for (int64_t done = 0; done < entry.n_tokens;) {
    const int64_t slot = entry.start_pos + done - view.GoneOf(kv_head);
    const int64_t tile = slot / kTileTokens;
    TileRows source;
    source.slot = static_cast<int>(slot % kTileTokens);
    source.n_rows = static_cast<int>(std::min(kTileTokens - source.slot, entry.n_tokens - done));
    source.rows = k.Row(entry.row_begin + done, kv_head);
    source.row_stride = k.stride[0];
    key_writer_.WriteKeys(source, tile_at(view.k, tile));
    if (source.slot + source.n_rows == kTileTokens) {
      BoundTile(key_writer_, view, kv_head, tile, head_dim_);
    }
    if (!v_in_k_) {
      source.rows = v.Row(entry.row_begin + done, kv_head);
      source.row_stride = v.stride[0];
      value_writer_.WriteValues(source, tile_at(view.v, tile));
    }
    done += source.n_rows;
  }
}

absl::Status TileStore::CheckImage(size_t n_bytes, int64_t n_tokens) const {
  const int64_t wanted = TilesFor(n_tokens) * plan().image_tile_bytes;
  if (static_cast<int64_t>(n_bytes) == wanted) return absl::OkStatus();
  return RuntimeError("an image of " + std::to_string(n_tokens) + " tokens has " +
                      std::to_string(wanted) + " bytes in each layer, not " +
                      std::to_string(n_bytes));
}

absl::Status TileStore::ExportLayer(int layer, SequenceId sequence,
                                    std::span<std::byte> image) const {
  const int64_t length = Length(sequence);
  NG_RETURN_IF_ERROR(CheckImage(image.size(), length));
  const KvView view = View(layer, sequence, length);
  if (view.first > 0) {
    return UnsupportedError("of sequence " + std::to_string(sequence) + " the tokens before " +
                            std::to_string(view.first) + " are no longer held");
  }
  const auto widest = static_cast<size_t>(std::max(head_dim_, value_dim_));
  const std::vector<float> zeros(widest);  // with stride 0, any rows
  std::byte* out = image.data();
  const KvSide* const sides[] = {&view.k, &view.v};
  for (int64_t tile = 0; tile < TilesFor(length); ++tile) {
    const auto n_filled = static_cast<int>(std::min(kTileTokens, length - tile * kTileTokens));
    const TileRows rest{zeros.data(), 0, static_cast<int>(kTileTokens) - n_filled, n_filled};
    for (const KvSide* side : std::span(sides).first(v_in_k_ ? 1 : 2)) {
      for (int head = 0; head < n_kv_heads_; ++head, out += side->tile_bytes) {
        std::memcpy(out, view.Tile(*side, head, tile), static_cast<size_t>(side->tile_bytes));
        if (rest.n_rows == 0) continue;
        if (side == &view.k) {
          key_writer_.WriteKeys(rest, out);
        } else {
          value_writer_.WriteValues(rest, out);
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status TileStore::ImportLayer(int layer, const SequenceRows& rows,
                                    std::span<const std::byte> image) {
  if (rows.start_pos % kTileTokens != 0) {
    return RuntimeError("an image cannot begin at position " + std::to_string(rows.start_pos) +
                        ", must be a multiple of " + std::to_string(kTileTokens));
  }
  NG_RETURN_IF_ERROR(CheckFits({&rows, 1}));
  NG_RETURN_IF_ERROR(CheckImage(image.size(), rows.n_tokens));
  NG_RETURN_IF_ERROR(MakeRoom(rows));
  const int64_t first = rows.start_pos / kTileTokens;
  const KvView view = View(layer, rows.sequence, rows.start_pos + rows.n_tokens);
  const std::byte* in = image.data();
  const KvSide* const sides[] = {&view.k, &view.v};
  for (int64_t tile = first; tile < first + TilesFor(rows.n_tokens); ++tile) {
    for (const KvSide* side : std::span(sides).first(v_in_k_ ? 1 : 2)) {
      for (int head = 0; head < n_kv_heads_; ++head, in += side->tile_bytes) {
        std::memcpy(WritableTile(view, *side, head, tile), in,
                    static_cast<size_t>(side->tile_bytes));
        if (side == &view.k) BoundTile(key_writer_, view, head, tile, head_dim_);
      }
    }
  }
  return absl::OkStatus();
}

void TileStore::CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
                        float* out) const {
  const int64_t at = view.SlotOf(kv_head, token);
  const int64_t tile = at / kTileTokens;
  const int slot = static_cast<int>(at % kTileTokens);
  if (part == KvPart::kKey || v_in_k_) {
    const std::byte* keys = view.Tile(view.k, kv_head, tile);
    const int width = part == KvPart::kKey ? head_dim_ : value_dim_;
    for (int d = 0; d < width; ++d) out[d] = key_writer_.ReadKey(keys, slot, d);
  } else {
    const std::byte* values = view.Tile(view.v, kv_head, tile);
    for (int d = 0; d < value_dim_; ++d) out[d] = value_writer_.ReadValue(values, slot, d);
  }
}

void TileStore::CopySlots(KvPart part, const KvView& view, int kv_head, int64_t n_slots,
                          float* out) const {
  const bool keys = part == KvPart::kKey;
  for (int64_t slot = 0; slot < n_slots; slot += kTileTokens) {
    const int n_rows = static_cast<int>(std::min(kTileTokens, n_slots - slot));
    const std::byte* tile =
        view.Tile(keys || v_in_k_ ? view.k : view.v, kv_head, slot / kTileTokens);
    float* const to = out + slot * (keys ? head_dim_ : value_dim_);
    if (keys) {
      key_writer_.ReadKeys(tile, n_rows, to);
    } else if (!v_in_k_) {
      value_writer_.ReadValues(tile, n_rows, to);
    } else {
      for (int row = 0; row < n_rows; ++row) {
        for (int d = 0; d < value_dim_; ++d) {
          to[row * value_dim_ + d] = key_writer_.ReadKey(tile, row, d);
        }
      }
    }
  }
}

void TileStore::MoveSlot(const KvView& view, int kv_head, int64_t from, int64_t to) {
  const int from_slot = static_cast<int>(from % kTileTokens);
  const int to_slot = static_cast<int>(to % kTileTokens);
  key_writer_.CopyKeyRow(view.Tile(view.k, kv_head, from / kTileTokens), from_slot,
                         WritableTile(view, view.k, kv_head, to / kTileTokens), to_slot);
  if (v_in_k_) return;
  value_writer_.CopyValueRow(view.Tile(view.v, kv_head, from / kTileTokens), from_slot,
                             WritableTile(view, view.v, kv_head, to / kTileTokens), to_slot);
}

}  // namespace ng
