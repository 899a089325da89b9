#include "ng/conform/plain_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "ng/half.h"

namespace ng::conform {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Elements that lie in 32 bits beside each other.
int64_t PerWord(Codec codec) {
  switch (codec) {
    case Codec::kF32:
      return 1;
    case Codec::kBf16:
    case Codec::kF16:
      return 2;
    case Codec::kInt8:
      return 4;
    case Codec::kInt4:
      return 8;
  }
  return 0;
}

int64_t ScalesBytes(Codec codec) { return HasScales(codec) ? 16 * 4 : 0; }

struct Place {
  int64_t word;   // byte of the tile where its 32 bits begin
  int64_t place;  // which of the word's elements
};

Place Find(const Tiles16Side& side, int64_t slot, int64_t dim) {
  const int64_t n = PerWord(side.codec);
  const int64_t word =
      side.part == KvPart::kKey ? dim / n * 16 + slot : slot / n * side.head_dim + dim;
  return {ScalesBytes(side.codec) + word * 4, side.part == KvPart::kKey ? dim % n : slot % n};
}

// Of an integer codec: where its bits begin in the word.
int64_t FirstBit(Codec codec, int64_t place) {
  return place % 2 * 16 + place / 2 * (32 / PerWord(codec));
}

float ScaleOf(Codec codec, std::span<const float> row) {
  float largest = 0.0F;
  for (const float x : row) {
    if (!std::isfinite(x)) return kNaN;
    if (std::fabs(x) > std::fabs(largest)) largest = x;
  }
  const float scale = codec == Codec::kInt8 ? std::fabs(largest) / 127.0F : largest / -8.0F;
  return std::fabs(scale) < std::numeric_limits<float>::min() ? 0.0F : scale;
}

}  // namespace

int64_t Tiles16Side::StoredDims() const {
  const int64_t unit = part == KvPart::kKey ? PerWord(codec) : 1;
  return (head_dim + unit - 1) / unit * unit;
}

int64_t Tiles16Side::TileBytes() const {
  return ScalesBytes(codec) + 16 * StoredDims() * 4 / PerWord(codec);
}

float ReadElement(const Tiles16Side& side, const std::byte* tile, int64_t slot, int64_t dim) {
  const auto [word, place] = Find(side, slot, dim);
  if (HasScales(side.codec)) {
    uint32_t bits = 0;
    std::memcpy(&bits, tile + word, 4);
    const int64_t n_values = int64_t{1} << 32 / PerWord(side.codec);
    const auto field = static_cast<int64_t>(bits >> FirstBit(side.codec, place)) & (n_values - 1);
    return static_cast<float>(field < n_values / 2 ? field : field - n_values);
  }
  if (side.codec == Codec::kF32) {
    float value = 0.0F;
    std::memcpy(&value, tile + word, 4);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, tile + word + place * 2, 2);
  return side.codec == Codec::kBf16 ? Bf16ToF32(bits) : F16ToF32(bits);
}

void WriteElement(const Tiles16Side& side, float element, int64_t slot, int64_t dim,
                  std::byte* tile) {
  const auto [word, place] = Find(side, slot, dim);
  if (HasScales(side.codec)) {
    uint32_t bits = 0;
    std::memcpy(&bits, tile + word, 4);
    const uint64_t n_values = uint64_t{1} << 32 / PerWord(side.codec);
    const uint32_t mask = static_cast<uint32_t>(n_values - 1) << FirstBit(side.codec, place);
    const auto field = static_cast<uint32_t>(static_cast<int32_t>(element));
    bits = (bits & ~mask) | (field << FirstBit(side.codec, place) & mask);
    std::memcpy(tile + word, &bits, 4);
    return;
  }
  if (side.codec == Codec::kF32) {
    std::memcpy(tile + word, &element, 4);
    return;
  }
  const uint16_t bits = side.codec == Codec::kBf16 ? F32ToBf16(element) : F32ToF16(element);
  std::memcpy(tile + word + place * 2, &bits, 2);
}

float ReadScale(const Tiles16Side& side, const std::byte* tile, int64_t slot) {
  float scale = 1.0F;
  if (HasScales(side.codec)) std::memcpy(&scale, tile + slot * 4, 4);
  return scale;
}

void WriteScale(const Tiles16Side& side, float scale, int64_t slot, std::byte* tile) {
  if (HasScales(side.codec)) std::memcpy(tile + slot * 4, &scale, 4);
}

void WriteTiles16Row(const Tiles16Side& side, const float* row, int64_t slot, std::byte* tile) {
  const bool scales = HasScales(side.codec);
  const float scale =
      scales ? ScaleOf(side.codec, {row, static_cast<size_t>(side.head_dim)}) : 1.0F;
  WriteScale(side, scale, slot, tile);
  for (int64_t d = 0; d < side.StoredDims(); ++d) {
    float x = d < side.head_dim ? row[d] : 0.0F;
    if (scales) {
      x = scale == 0.0F || std::isnan(scale) ? 0.0F : std::nearbyint(x / scale);
      if (side.codec == Codec::kInt4) x = std::min(x, 7.0F);
    }
    WriteElement(side, x, slot, d, tile);
  }
}

void WriteTiles16Bounds(const Tiles16Side& side, const std::byte* tile, std::byte* bounds) {
  for (int64_t d = 0; d < (side.head_dim + 15) / 16 * 16; ++d) {
    float least = d < side.head_dim ? HUGE_VALF : 0.0F;
    float most = -least;
    for (int64_t slot = 0; slot < 16 && d < side.head_dim; ++slot) {
      const float key = ReadElement(side, tile, slot, d) * ReadScale(side, tile, slot);
      const bool nan = std::isnan(key) || std::isnan(least);
      least = nan ? kNaN : std::min(least, key);
      most = nan ? kNaN : std::max(most, key);
    }
    // The nearest, or its neighbour where that is on the wrong side.
    uint16_t pair[] = {F32ToBf16(least), F32ToBf16(most)};
    if (Bf16ToF32(pair[0]) > least) pair[0] += least < 0.0F ? 1 : -1;
    if (Bf16ToF32(pair[1]) < most) pair[1] += most > 0.0F ? 1 : -1;
    std::memcpy(bounds + d * 4, pair, 4);
  }
}

void PoisonTiles16Row(const Tiles16Side& side, int64_t slot, std::byte* tile) {
  WriteScale(side, kNaN, slot, tile);
  const float lowest = side.codec == Codec::kInt8 ? -128.0F : -8.0F;
  for (int64_t d = 0; d < side.StoredDims(); ++d) {
    WriteElement(side, HasScales(side.codec) ? lowest : kNaN, slot, d, tile);
  }
}

void RoundToCodec(Codec codec, int64_t head_dim, float* row) {
  const Tiles16Side side{.part = KvPart::kValue, .codec = codec, .head_dim = head_dim};
  std::vector<std::byte> tile(static_cast<size_t>(side.TileBytes()));
  WriteTiles16Row(side, row, 0, tile.data());
  for (int64_t d = 0; d < head_dim; ++d) {
    row[d] = ReadElement(side, tile.data(), 0, d) * ReadScale(side, tile.data(), 0);
  }
}

void ReadTiles16Row(KvPart part, const KvView& view, int64_t token, int kv_head, int64_t head_dim,
                    float* out) {
  const KvSide& stored = part == KvPart::kKey ? view.k : view.v;
  const Tiles16Side side{.part = part, .codec = stored.codec, .head_dim = head_dim};
  const int64_t slot = view.gone == 0 && view.heads.empty() ? token : view.SlotOf(kv_head, token);
  const std::byte* tile = view.Tile(stored, kv_head, slot / 16);
  const float scale = ReadScale(side, tile, slot % 16);
  for (int64_t d = 0; d < head_dim; ++d) {
    out[d] = ReadElement(side, tile, slot % 16, d) * scale;
  }
}

}  // namespace ng::conform
