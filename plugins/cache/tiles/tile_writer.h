// Writes f32 rows into the tiles of layout "tiles16" (ng/kv_view.h), converting each row once.
//
// Called by the store from workers; writers are immutable and shared. What is stored does not
// depend on the ISA level: 16-bit elements are rounded to nearest even, integers as the layout
// says.
#ifndef NG_PLUGINS_CACHE_TILES_TILE_WRITER_H_
#define NG_PLUGINS_CACHE_TILES_TILE_WRITER_H_

#include <cstddef>
#include <cstdint>

#include "ng/isa.h"
#include "ng/kv_view.h"

namespace ng {

// Consecutive tokens of one kv head, all within one tile.
struct TileRows {
  const float* rows = nullptr;  // [n_rows, head_dim], rows `row_stride` floats apart
  int64_t row_stride = 0;
  int n_rows = 0;
  int slot = 0;  // the first row's place in the tile: slot + n_rows <= kTileTokens
};

class TileWriter {
 public:
  TileWriter(Codec codec, int head_dim, IsaLevel isa);

  // Bytes of one tile.
  static int64_t KeyTileBytes(Codec codec, int64_t head_dim);
  static int64_t ValueTileBytes(Codec codec, int64_t head_dim);

  void WriteKeys(const TileRows& source, std::byte* tile) const;
  void WriteValues(const TileRows& source, std::byte* tile) const;

  // One element of one row, decoded.
  float ReadKey(const std::byte* tile, int slot, int dim) const;
  float ReadValue(const std::byte* tile, int slot, int dim) const;

 private:
  // in: [n] f32; out: [n] of the 16-bit codec.
  using Narrow = void (*)(const float* in, int n, uint16_t* out);

  void WriteQuantisedKeys(const TileRows& source, std::byte* tile) const;
  void WriteQuantisedValues(const TileRows& source, std::byte* tile) const;
  float Widen(const std::byte* tile, int64_t index) const;

  Codec codec_;
  int head_dim_;
  Narrow narrow_;  // null but for 16-bit codecs
};

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_TILES_TILE_WRITER_H_
