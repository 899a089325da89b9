// Layout "tiles16" (ng/kv_view.h says how its bytes lie): how large tiles and pages are, the writer
// that converts rows to tiles, and how words hold quantised elements. For stores that write the
// layout; ng/tile_store.h has a base for them. Backends that read it need the words.
#ifndef NG_TILES16_H_
#define NG_TILES16_H_

#include <cstddef>
#include <cstdint>

#include "ng/cache_store.h"
#include "ng/isa.h"
#include "ng/kv_view.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

// Where everything lies within a page, computed with checked arithmetic.
// A page: [n_layers][K | V][n_kv_heads][tiles], without V where that is in K. All sizes in bytes.
struct PageShape {
  int64_t page_tokens = 0;  // held_tokens rounded up to whole tiles
  int64_t layer_bytes = 0;  // from one layer to the next
  int64_t page_bytes = 0;
  KvSide k;        // of layer 0
  KvSide v;        // where it is in K: as k
  CachePlan plan;  // bytes: of all pages
};

// The shape of max_sequences pages of spec.held_tokens() tokens each. A store of smaller pages asks
// for those. Errors: PluginError for a layout, codec or shape that tiles cannot hold; LimitError
// when the bytes overflow.
absl::StatusOr<PageShape> MakePageShape(const CacheSpec& spec);

// Consecutive tokens of one kv head, all within one tile.
struct TileRows {
  const float* rows = nullptr;  // [n_rows, head_dim], rows `row_stride` floats apart
  int64_t row_stride = 0;
  int n_rows = 0;
  int slot = 0;  // the first row's place in the tile: slot + n_rows <= kTileTokens
};

// Writes f32 rows into tiles, converting each row once. Writers are immutable and may be shared by
// workers. What is stored does not depend on the ISA level: 16-bit elements are rounded to nearest
// even, integers as the layout says.
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

// A row as integers times a scale: codecs int8 and int4.
// REQUIRES: HasScales(codec), here and below.

// What an integer of 1 stands for in the row. row: [n]
float RowScale(Codec codec, const float* row, int n);

// The row as integers, for the scale that RowScale gave. row, out: [n]
void QuantiseRow(Codec codec, float scale, const float* row, int n, int8_t* out);

// Elements in a word: 4 or 8.
inline constexpr int kMostWordElements = 8;
constexpr int WordElements(Codec codec) { return 32 / CodecBits(codec); }

// Where an element's lowest bit lies in its word.
constexpr int WordShift(Codec codec, int element) {
  return element % 2 * 16 + element / 2 * CodecBits(codec);
}

constexpr uint32_t WordMask(Codec codec) { return (1U << CodecBits(codec)) - 1U; }

// The element of a word, sign and all.
constexpr int WordElement(Codec codec, uint32_t word, int element) {
  const int bits = CodecBits(codec);
  return static_cast<int32_t>(word << (32 - bits - WordShift(codec, element))) >> (32 - bits);
}

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_TILES16_H_
