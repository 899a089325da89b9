#include "ng/conform/scattered_store.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "core/conform/kept_rows.h"
#include "ng/conform/plain_tiles.h"
#include "ng/tiles16.h"

namespace ng::conform {
namespace {

// By itself, not by what stores of ng have: the first of its two layouts that the spec asks for.
std::string_view LayoutOf(const CacheSpec& spec) {
  for (const std::string_view layout : spec.layouts) {
    if (layout == kLayoutTiles16Bounds) return layout;
    if (layout == kLayoutTiles16 || layout == kLayoutAny) break;
  }
  return kLayoutTiles16;
}

constexpr int64_t kPageTokens = 16;

int64_t Pages(int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

}  // namespace

ScatteredStore::ScatteredStore(const CacheSpec& spec)
    : spec_(spec), sequences_(static_cast<size_t>(spec.max_sequences)) {
  const int64_t page_bytes = layer_bytes() * spec.n_layers;
  const int64_t n_pages = Pages(spec.max_tokens) * spec.max_sequences;
  memory_.resize(static_cast<size_t>(n_pages * page_bytes), std::byte{0xFF});
  for (int64_t i = 0; i < n_pages; ++i) free_pages_.push_back(memory_.data() + i * page_bytes);
  std::shuffle(free_pages_.begin(), free_pages_.end(), std::mt19937(1));
}

absl::StatusOr<std::unique_ptr<CacheStore>> ScatteredStore::Create(const PluginContext&,
                                                                   const CacheSpec& spec) {
  return std::make_unique<ScatteredStore>(spec);
}

int64_t ScatteredStore::tile_bytes(KvPart part) const { return Side(part).TileBytes(); }

int64_t ScatteredStore::head_bytes(KvPart part) const {
  const bool bounds = part == KvPart::kKey && LayoutOf(spec_) == kLayoutTiles16Bounds;
  return tile_bytes(part) + (bounds ? BoundsBytes(spec_.head_dim) : 0);
}

std::span<const KvPart> ScatteredStore::parts() const {
  return std::span(kParts).first(HoldsKeysAlone(spec_) ? 1 : 2);
}

int64_t ScatteredStore::layer_bytes() const {
  int64_t bytes = 0;
  for (const KvPart part : parts()) bytes += spec_.n_kv_heads * head_bytes(part);
  return bytes;
}

int64_t ScatteredStore::Offset(KvPart part, int layer, int kv_head) const {
  const bool first = part == KvPart::kKey || HoldsKeysAlone(spec_);
  const int64_t side = first ? 0 : spec_.n_kv_heads * head_bytes(KvPart::kKey);
  return layer * layer_bytes() + side + kv_head * head_bytes(first ? KvPart::kKey : part);
}

CachePlan ScatteredStore::plan() const {
  const std::string_view layout = LayoutOf(spec_);
  return {.layout = layout,
          .bytes = static_cast<int64_t>(memory_.size()),
          .bytes_per_token = (layer_bytes() * spec_.n_layers + kPageTokens - 1) / kPageTokens,
          // An image has no bounds.
          .image_tile_bytes = layout == kLayoutTiles16 ? layer_bytes() : 0,
          .v_head_dim = true,
          .v_in_k = HoldsKeysAlone(spec_)};
}

absl::StatusOr<SequenceId> ScatteredStore::Open(int64_t capacity) {
  if (capacity > spec_.max_tokens) {
    return LimitError(std::to_string(capacity) + " > " + std::to_string(spec_.max_tokens));
  }
  const auto sequence =
      std::find_if(sequences_.begin(), sequences_.end(), [](const Sequence& s) { return !s.open; });
  if (sequence == sequences_.end()) return LimitError("all sequences are open");
  *sequence = {.open = true, .length = 0, .capacity = capacity, .written = 0, .pages = {}};
  for (int64_t i = 0; i < Pages(capacity); ++i) {
    sequence->pages.push_back(free_pages_.back());
    free_pages_.pop_back();
  }
  for (int layer = 0; layer < spec_.n_layers; ++layer) {
    Poison(*sequence, layer, 0, Pages(capacity) * kPageTokens);
  }
  return static_cast<SequenceId>(sequence - sequences_.begin());
}

void ScatteredStore::Close(SequenceId sequence) {
  Sequence& closed = At(sequence);
  closed.open = false;
  free_pages_.insert(free_pages_.begin(), closed.pages.begin(), closed.pages.end());
}

absl::Status ScatteredStore::Truncate(SequenceId sequence, int64_t length) {
  if (length < 0 || length > Length(sequence)) return RuntimeError("cannot truncate to that");
  Sequence& shorter = At(sequence);
  for (int layer = 0; layer < spec_.n_layers; ++layer) {
    Poison(shorter, layer, length, shorter.written);
  }
  shorter.length = length;
  return absl::OkStatus();
}

absl::StatusOr<SequenceId> ScatteredStore::Fork(SequenceId sequence, int64_t capacity) {
  if (capacity < Length(sequence)) return LimitError("the fork cannot hold its tokens");
  NG_ASSIGN_OR_RETURN(const SequenceId fork, Open(capacity));
  const int64_t length = Length(sequence);
  for (size_t page = 0; page < static_cast<size_t>(Pages(length)); ++page) {
    std::memcpy(At(fork).pages[page], At(sequence).pages[page],
                static_cast<size_t>(layer_bytes() * spec_.n_layers));
  }
  At(fork).length = length;
  At(fork).written = length;
  for (int layer = 0; layer < spec_.n_layers; ++layer) {
    Poison(At(fork), layer, length, Pages(length) * kPageTokens);
  }
  return fork;
}

absl::Status ScatteredStore::CheckFits(const SequenceRows& entry) const {
  if (entry.start_pos != Length(entry.sequence)) return RuntimeError("rows leave a gap");
  if (entry.n_tokens <= Capacity(entry.sequence) - entry.start_pos) return absl::OkStatus();
  return LimitError("cache overflow: no room for the rows");
}

absl::Status ScatteredStore::Append(int layer, std::span<const SequenceRows> rows,
                                    const TensorView<const float, 3>& k,
                                    const TensorView<const float, 3>& v) {
  for (const SequenceRows& entry : rows) NG_RETURN_IF_ERROR(CheckFits(entry));
  for (const SequenceRows& entry : rows) {
    Sequence& sequence = At(entry.sequence);
    Poison(sequence, layer, entry.start_pos, sequence.written);  // what an abandoned step left
    sequence.written = std::max(sequence.written, entry.start_pos + entry.n_tokens);
    for (int64_t i = 0; i < entry.n_tokens; ++i) {
      const int64_t token = entry.start_pos + i;
      std::byte* page = sequence.pages[static_cast<size_t>(token / kPageTokens)];
      for (int head = 0; head < spec_.n_kv_heads; ++head) {
        for (const KvPart part : parts()) {
          const auto& source = part == KvPart::kKey ? k : v;
          WriteTiles16Row(Side(part), source.Row(entry.row_begin + i, head), token % kPageTokens,
                          page + Offset(part, layer, head));
        }
        if (token % kPageTokens == kPageTokens - 1 && plan().layout == kLayoutTiles16Bounds) {
          std::byte* const tile = page + Offset(KvPart::kKey, layer, head);
          WriteTiles16Bounds(Side(KvPart::kKey), tile, tile + tile_bytes(KvPart::kKey));
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ScatteredStore::Commit(std::span<const SequenceRows> rows) {
  for (const SequenceRows& entry : rows) At(entry.sequence).length += entry.n_tokens;
  return absl::OkStatus();
}

KvView ScatteredStore::View(int layer, SequenceId sequence, int64_t length) const {
  const auto& pages = At(sequence).pages;
  const auto side = [&](KvPart part) {
    return KvSide{.codec = codec(part),
                  .offset = Offset(part, layer, 0),
                  .head_stride = head_bytes(HoldsKeysAlone(spec_) ? KvPart::kKey : part),
                  .tile_bytes = tile_bytes(part)};
  };
  return {.layout = LayoutOf(spec_),
          .pages = {pages.data(), pages.size()},
          .page_tokens = kPageTokens,
          .length = length,
          .k = side(KvPart::kKey),
          .v = side(KvPart::kValue),
          .store = this,
          .sequence = sequence,
          .layer = layer,
          .v_in_k = HoldsKeysAlone(spec_)};
}

void ScatteredStore::CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
                             float* out) const {
  const KvPart held = HoldsKeysAlone(spec_) ? KvPart::kKey : part;
  ReadTiles16Row(held, view, token, kv_head, WidthOf(spec_, part), out);
}

// A layer of a page is a tile of the image: the K tiles of all heads, then their V tiles.
absl::Status ScatteredStore::ExportLayer(int layer, SequenceId sequence,
                                         std::span<std::byte> image) const {
  if (plan().image_tile_bytes == 0) return UnsupportedError("no images of tiles with bounds");
  const int64_t length = Length(sequence);
  if (std::ssize(image) != Pages(length) * layer_bytes()) return RuntimeError("another size");
  const std::vector<float> zeros(static_cast<size_t>(std::max(spec_.head_dim, spec_.value_dim())));
  for (int64_t page = 0; page < Pages(length); ++page) {
    std::byte* out = image.data() + page * layer_bytes();
    std::memcpy(out, At(sequence).pages[static_cast<size_t>(page)] + layer * layer_bytes(),
                static_cast<size_t>(layer_bytes()));
    for (int64_t token = length; token < (page + 1) * kPageTokens; ++token) {
      for (int head = 0; head < spec_.n_kv_heads; ++head) {
        for (const KvPart part : parts()) {
          WriteTiles16Row(Side(part), zeros.data(), token % kPageTokens,
                          out + Offset(part, 0, head));
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ScatteredStore::ImportLayer(int layer, const SequenceRows& rows,
                                         std::span<const std::byte> image) {
  if (plan().image_tile_bytes == 0) return UnsupportedError("no images of tiles with bounds");
  const int64_t end = rows.start_pos + rows.n_tokens;
  if (rows.start_pos % kPageTokens != 0) return RuntimeError("begins within a tile");
  NG_RETURN_IF_ERROR(CheckFits(rows));
  if (std::ssize(image) != Pages(rows.n_tokens) * layer_bytes()) {
    return RuntimeError("another size");
  }
  Sequence& sequence = At(rows.sequence);
  const int64_t first = rows.start_pos / kPageTokens;
  for (int64_t page = first; page < Pages(end); ++page) {
    std::memcpy(sequence.pages[static_cast<size_t>(page)] + layer * layer_bytes(),
                image.data() + (page - first) * layer_bytes(), static_cast<size_t>(layer_bytes()));
  }
  sequence.written = std::max(sequence.written, end);
  const int64_t n_there = std::max(sequence.written, Pages(end) * kPageTokens);
  Poison(sequence, layer, end, std::min(n_there, std::ssize(sequence.pages) * kPageTokens));
  return absl::OkStatus();
}

void ScatteredStore::Poison(const Sequence& sequence, int layer, int64_t begin, int64_t end) const {
  for (int64_t token = begin; token < end; ++token) {
    std::byte* page = sequence.pages[static_cast<size_t>(token / kPageTokens)];
    for (int head = 0; head < spec_.n_kv_heads; ++head) {
      for (const KvPart part : parts()) {
        std::byte* const tile = page + Offset(part, layer, head);
        PoisonTiles16Row(Side(part), token % kPageTokens, tile);
        std::memset(tile + tile_bytes(part), 0xFF,  // bounds of NaN, where there are any
                    static_cast<size_t>(head_bytes(part) - tile_bytes(part)));
      }
    }
  }
}

}  // namespace ng::conform
