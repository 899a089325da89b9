// What is stored in a cache for one sequence and one layer, as data that a kernel can walk.
//
// A view is a list of pages; a contiguous store is the case of one page. Within a page each kv
// head has its own run of 16-token tiles, for K and for V apart. How a tile is laid out is named
// by `layout`, so a new layout is a new name and never changes the meaning of an old one.
//
// Layout "tiles16" (memory space: host). T = 16 tokens, D = head_dim, Dp = D rounded up to even:
//   f32        K tile [D][16]            V tile [16][D]
//   bf16, f16  K tile [Dp/2][16][2]      V tile [8][D][2]
// K holds one dimension (16-bit: a pair of dimensions) of 16 tokens side by side, so that 16 scores
// come out of one pass without a horizontal sum; 16-bit V holds pairs of tokens. The pad dimension
// of an odd head_dim is zero in every K row that was written.
//
// Rows at or beyond `length` hold anything, NaN included: readers mask K and V there.
#ifndef NG_KV_VIEW_H_
#define NG_KV_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ng {

class CacheStore;

inline constexpr int64_t kTileTokens = 16;
inline constexpr std::string_view kLayoutTiles16 = "tiles16";
// In a backend's list of layouts: it reads rows through CacheStore::CopyRow, so any layout will do.
inline constexpr std::string_view kLayoutAny = "any";

enum class Codec : int32_t { kF32 = 0, kBf16 = 1, kF16 = 2 };

// "f32", "bf16", "f16".
std::string_view CodecName(Codec codec);
std::optional<Codec> CodecFromName(std::string_view name);
// Bytes of one stored element.
int64_t CodecBytes(Codec codec);

using SequenceId = int32_t;

// Where one of K and V lies within every page.
struct KvSide {
  Codec codec = Codec::kF32;
  int64_t offset = 0;       // bytes from the page's start to tile 0 of kv head 0 of this layer
  int64_t head_stride = 0;  // bytes from one kv head's tile 0 to the next head's
  int64_t tile_bytes = 0;   // bytes from one tile to the next of the same head
};

// Borrowed from the store: valid until the sequence is changed by anything but Append.
struct KvView {
  std::string_view layout;
  std::span<const std::byte* const> pages;
  int64_t page_tokens = 0;  // tokens per page, a multiple of kTileTokens
  int64_t length = 0;       // tokens that hold data
  KvSide k;
  KvSide v;
  // For CacheStore::CopyRow.
  const CacheStore* store = nullptr;
  SequenceId sequence = 0;
  int layer = 0;

  // The tile that holds tokens [16 * tile, 16 * tile + 16) of `kv_head`.
  const std::byte* Tile(const KvSide& side, int kv_head, int64_t tile) const {
    const int64_t tiles_per_page = page_tokens / kTileTokens;
    return pages[static_cast<size_t>(tile / tiles_per_page)] + side.offset +
           kv_head * side.head_stride + (tile % tiles_per_page) * side.tile_bytes;
  }
};

}  // namespace ng

#endif  // NG_KV_VIEW_H_
