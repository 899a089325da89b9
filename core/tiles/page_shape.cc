#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "ng/tiles16.h"

namespace ng {
namespace {

constexpr int64_t kAlignment = 64;  // of every layer, for K and V apart
constexpr int kMaxHeadDim = 1 << 20;

// A size in bytes that remembers whether computing it overflowed.
class CheckedBytes {
 public:
  explicit CheckedBytes(int64_t value) : value_(value) {}

  CheckedBytes operator*(int64_t factor) const {
    CheckedBytes r = *this;
    r.overflowed_ |= __builtin_mul_overflow(value_, factor, &r.value_);
    return r;
  }
  CheckedBytes operator+(const CheckedBytes& other) const {
    CheckedBytes r = *this;
    r.overflowed_ |= other.overflowed_ || __builtin_add_overflow(value_, other.value_, &r.value_);
    return r;
  }
  CheckedBytes RoundedUpTo(int64_t unit) const {
    CheckedBytes r = *this + CheckedBytes(unit - 1);
    r.value_ -= r.value_ % unit;
    return r;
  }
  std::optional<int64_t> value() const {
    return overflowed_ ? std::nullopt : std::optional(value_);
  }

 private:
  int64_t value_;
  bool overflowed_ = false;
};

absl::Status CheckShape(const CacheSpec& spec) {
  struct Field {
    const char* name;
    int64_t value;
  };
  for (const Field& field :
       {Field{"n_layers", spec.n_layers}, Field{"n_kv_heads", spec.n_kv_heads},
        Field{"head_dim", spec.head_dim}, Field{"v_head_dim", spec.value_dim()},
        Field{"max_tokens", spec.max_tokens}, Field{"max_sequences", spec.max_sequences}}) {
    if (field.value >= 1) continue;
    return PluginError(std::string(field.name) + " = " + std::to_string(field.value) +
                       ": a cache needs at least 1");
  }
  if (spec.window < 0) {
    return PluginError("window = " + std::to_string(spec.window) + ", must be at least 0");
  }
  if (spec.v_in_k && spec.value_dim() > spec.head_dim) {
    return PluginError("values of " + std::to_string(spec.value_dim()) +
                       " dimensions cannot be in keys of " + std::to_string(spec.head_dim));
  }
  if (const int widest = std::max(spec.head_dim, spec.value_dim()); widest > kMaxHeadDim) {
    return PluginError("a head of " + std::to_string(widest) + " dimensions, must be at most " +
                       std::to_string(kMaxHeadDim));
  }
  return absl::OkStatus();
}

absl::Status CheckCodec(const char* part, Codec codec) {
  if (CodecBits(codec) > 0) return absl::OkStatus();
  return PluginError("cannot store " + std::string(part) + " with codec number " +
                     std::to_string(static_cast<int32_t>(codec)) + "; can: " + AllCodecNames());
}

absl::Status CheckLayouts(const CacheSpec& spec) {
  if (!TileLayoutOf(spec).empty()) return absl::OkStatus();
  std::string asked;
  for (const std::string_view layout : spec.layouts) {
    if (!asked.empty()) asked += ", ";
    asked += layout;
  }
  return PluginError("cannot write a layout that the attention backend reads (" +
                     (asked.empty() ? "it lists none" : asked) + "); can: " +
                     std::string(kLayoutTiles16) + ", " + std::string(kLayoutTiles16Bounds));
}

}  // namespace

std::string_view TileLayoutOf(const CacheSpec& spec) {
  for (const std::string_view layout : spec.layouts) {
    if (layout == kLayoutTiles16 || layout == kLayoutAny) return kLayoutTiles16;
    if (layout == kLayoutTiles16Bounds) return kLayoutTiles16Bounds;
  }
  return "";
}

absl::StatusOr<PageShape> MakePageShape(const CacheSpec& spec) {
  NG_RETURN_IF_ERROR(CheckShape(spec));
  NG_RETURN_IF_ERROR(CheckCodec("keys", spec.codec_k));
  NG_RETURN_IF_ERROR(CheckCodec("values", spec.codec_v));
  NG_RETURN_IF_ERROR(CheckLayouts(spec));

  PageShape shape;
  shape.k.codec = spec.codec_k;
  shape.k.tile_bytes = TileWriter::KeyTileBytes(spec.codec_k, spec.head_dim);
  shape.v.codec = spec.codec_v;
  const bool v_in_k = spec.v_in_k && spec.codec_k == spec.codec_v;
  shape.v.tile_bytes = v_in_k ? 0 : TileWriter::ValueTileBytes(spec.codec_v, spec.value_dim());
  const std::string_view layout = TileLayoutOf(spec);
  const int64_t bounds_bytes = layout == kLayoutTiles16Bounds ? BoundsBytes(spec.head_dim) : 0;
  const int64_t tiles = (spec.held_tokens() - 1) / kTileTokens + 1;
  const CheckedBytes k_head = CheckedBytes(shape.k.tile_bytes + bounds_bytes) * tiles;
  const CheckedBytes v_head = CheckedBytes(shape.v.tile_bytes) * tiles;
  const CheckedBytes k_side = (k_head * spec.n_kv_heads).RoundedUpTo(kAlignment);
  const CheckedBytes v_side = (v_head * spec.n_kv_heads).RoundedUpTo(kAlignment);
  const CheckedBytes layer_bytes = k_side + v_side;
  const CheckedBytes page = layer_bytes * spec.n_layers;
  const CheckedBytes all = page * spec.max_sequences;
  const CheckedBytes page_tokens = CheckedBytes(tiles) * kTileTokens;
  const CheckedBytes per_tile =
      (CheckedBytes(shape.k.tile_bytes + bounds_bytes + shape.v.tile_bytes) * spec.n_kv_heads *
       spec.n_layers)
          .RoundedUpTo(kTileTokens);
  if (!all.value() || !page_tokens.value() || !per_tile.value()) {
    return LimitError("a cache of " + std::to_string(spec.max_sequences) + " sequences of " +
                      std::to_string(spec.max_tokens) + " tokens needs more than 2^63 - 1 bytes");
  }
  // Sizes only grow on the way to `all`, so every part of it is a value.
  shape.k.head_stride = *k_head.value();
  shape.v.head_stride = *v_head.value();
  shape.v.offset = *k_side.value();
  shape.page_tokens = *page_tokens.value();
  shape.layer_bytes = *layer_bytes.value();
  shape.page_bytes = *page.value();
  shape.plan = {.layout = layout,
                .bytes = *all.value(),
                .bytes_per_token = *per_tile.value() / kTileTokens,
                .image_tile_bytes = (shape.k.tile_bytes + shape.v.tile_bytes) * spec.n_kv_heads,
                .v_head_dim = true,
                .v_in_k = v_in_k};
  if (v_in_k) shape.v = shape.k;
  return shape;
}

}  // namespace ng
