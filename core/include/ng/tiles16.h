// Layout "tiles16": how large tiles and pages are, the writer that converts rows to tiles, and how
// words hold quantised elements. For stores that write the layout; ng/tile_store.h has a base for
// them. Backends that read it need the words.
//
// T = 16 tokens (memory space: host), D = head_dim (of K and of V apart), Dp = D
// rounded up to even:
//   f32        K tile [D][16]            V tile [16][D]
//   bf16, f16  K tile [Dp/2][16][2]      V tile [8][D][2]
//   int8       K tile 16 scales, [D4/4][16] words     V tile 16 scales, [4][D] words
//   int4       K tile 16 scales, [D8/8][16] words     V tile 16 scales, [2][D] words
// K holds one dimension (16-bit: a pair of dimensions, below: a word of them) of 16 tokens side by
// side, so that 16 scores come out of one pass without a horizontal sum; V holds pairs and words of
// tokens. D4, D8: D rounded up to 4, 8. A pad dimension is zero in every K row that was written.
//
// int8 and int4 are integers times a scale, an f32 for each token and head: those of a tile's 16
// tokens stand before it. A word is 32 bits of n = 4 int8 or 8 int4 elements in two's complement:
// element e is field e / 2, counted from the low end, of the 16-bit half e % 2. So one shift of all
// halves leaves pairs of neighbours in 16 bits each.
//
// A row x of K or V is quantised once, when it is written, by itself:
//   int8: scale = max |x| / 127          element = x / scale                  (-127..127)
//   int4: scale = the x of largest magnitude, the first of several, / -8
//                                        element = x / scale, 8 becomes 7     (-8..7)
// to the nearest whole number, ties to even. Where that scale is below 2^-126 in magnitude, it and
// all elements are 0; where x holds NaN or infinity, the scale is NaN: the row reads as NaN.
// (One scale a head: groups of 16 of the demo model's 32 dimensions change perplexity by less than
// 0.1 %, and cost a multiplication of every weight for each group.)
//
// Layout "tiles16_bounds" is the same with the bounds of each K tile, by which a reader knows what
// a query's products with the tile's keys cannot exceed. Behind the last K tile that a head has in
// a page lie the bounds of all of them, side by side: [D rounded up to 16][2] bf16, for each
// dimension the least and the largest number of the tile's 16 keys as they read, rounded down and
// up; both NaN where a key has a NaN. Those of a pad dimension are 0. Bounds are written with the
// last row of a tile; those of a tile that is not full hold anything.
#ifndef NG_TILES16_H_
#define NG_TILES16_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ng/cache_store.h"
#include "ng/isa.h"
#include "ng/kv_view.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

inline constexpr std::string_view kLayoutTiles16Bounds = "tiles16_bounds";

// Of the layouts that a spec asks for, the first of these two; kLayoutAny is "tiles16". Empty: it
// asks for others only.
std::string_view TileLayoutOf(const CacheSpec& spec);

// Bytes of the bounds of one tile.
constexpr int64_t BoundsBytes(int64_t head_dim) { return (head_dim + 15) / 16 * 64; }

// Where the bounds of a tile lie. REQUIRES: the view has them.
inline const std::byte* BoundsOf(const KvView& view, int kv_head, int64_t tile, int64_t head_dim) {
  const int64_t page_tiles = view.page_tokens / kTileTokens;
  const int64_t in_page = tile % page_tiles;
  return view.Tile(view.k, kv_head, tile) + (page_tiles - in_page) * view.k.tile_bytes +
         in_page * BoundsBytes(head_dim);
}

// Where everything lies within a page, computed with checked arithmetic.
// A page: [n_layers][K | V][n_kv_heads][tiles], without V where that is in K; behind the K tiles of
// a head their bounds, where the layout has them. All sizes in bytes.
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

  // The first rows of a tile, decoded. out: [n_rows, head_dim]
  void ReadKeys(const std::byte* tile, int n_rows, float* out) const;
  void ReadValues(const std::byte* tile, int n_rows, float* out) const;

  // The bounds of a K tile, for layout "tiles16_bounds".
  void WriteBounds(const std::byte* tile, std::byte* bounds) const;

  // Puts a stored row into another slot, as it is, in this tile or another one.
  void CopyKeyRow(const std::byte* from, int from_slot, std::byte* to, int to_slot) const;
  void CopyValueRow(const std::byte* from, int from_slot, std::byte* to, int to_slot) const;

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
