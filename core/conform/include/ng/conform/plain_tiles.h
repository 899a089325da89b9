// Layouts "tiles16" and "tiles16_bounds" spelled out one element at a time, from the words of
// ng/tiles16.h alone: what tests hold a store's memory against.
#ifndef NG_CONFORM_PLAIN_TILES_H_
#define NG_CONFORM_PLAIN_TILES_H_

#include <cstddef>
#include <cstdint>

#include "ng/cache_store.h"
#include "ng/kv_view.h"

namespace ng::conform {

// One side of a cache, and where in a tile of it an element lies.
struct Tiles16Side {
  KvPart part = KvPart::kKey;
  Codec codec = Codec::kF32;
  int64_t head_dim = 0;  // of this side

  int64_t TileBytes() const;
  // head_dim with its pad dimensions.
  int64_t StoredDims() const;
};

// One element as it stands in the tile: of int8 and int4 the integer. dim may be a pad dimension.
float ReadElement(const Tiles16Side& side, const std::byte* tile, int64_t slot, int64_t dim);
void WriteElement(const Tiles16Side& side, float element, int64_t slot, int64_t dim,
                  std::byte* tile);

// The scale of one row, 1 where the codec has none; writes nothing there.
float ReadScale(const Tiles16Side& side, const std::byte* tile, int64_t slot);
void WriteScale(const Tiles16Side& side, float scale, int64_t slot, std::byte* tile);

// The elements of a row of K or of V.
inline int WidthOf(const CacheSpec& spec, KvPart part) {
  return part == KvPart::kKey ? spec.head_dim : spec.value_dim();
}

// Whether a store that looks at v_in_k holds K alone.
inline bool HoldsKeysAlone(const CacheSpec& spec) {
  return spec.v_in_k && spec.codec_k == spec.codec_v;
}

// Stores one row, pad dimensions included. row: [head_dim]
void WriteTiles16Row(const Tiles16Side& side, const float* row, int64_t slot, std::byte* tile);

// Writes the bounds of a full tile of keys, as layout "tiles16_bounds" has them.
void WriteTiles16Bounds(const Tiles16Side& side, const std::byte* tile, std::byte* bounds);

// Makes a row NaN; the integers of int8 and int4 the lowest, under a scale of NaN.
void PoisonTiles16Row(const Tiles16Side& side, int64_t slot, std::byte* tile);

// What a row reads as once it has been stored. row: [head_dim]
void RoundToCodec(Codec codec, int64_t head_dim, float* row);

// One row read through the view's pages. out: [head_dim]
void ReadTiles16Row(KvPart part, const KvView& view, int64_t token, int kv_head, int64_t head_dim,
                    float* out);

}  // namespace ng::conform

#endif  // NG_CONFORM_PLAIN_TILES_H_
