// What is stored in a cache for one sequence and one layer, as data that a kernel can walk.
//
// A view is a list of pages; a contiguous store is the case of one page. Within a page each kv
// head has its own run of 16-token tiles, for K and for V apart. How a tile is laid out is named
// by `layout`, so a new layout is a new name and never changes the meaning of an old one.
//
// The layout "tiles16", with the bytes of each codec, is in ng/tiles16.h. Who reads a token at a
// time needs none of it: CacheStore::CopyRow gives a row as floats.
//
// Rows at or beyond `length` hold anything, NaN included: readers mask K and V there.
//
// A row lies in a slot, and slots are what pages and tiles count. A token's slot is its position,
// but where tokens have left for good (`gone`): then each kv head holds tokens of its own, in slots
// without gaps. All heads hold as many, unless the view says of each of them how many (`heads`).
#ifndef NG_KV_VIEW_H_
#define NG_KV_VIEW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace ng {

class CacheStore;

inline constexpr int64_t kTileTokens = 16;
inline constexpr std::string_view kLayoutTiles16 = "tiles16";
// In a backend's list of layouts: it reads rows through CacheStore::CopyRow, so any layout will do.
inline constexpr std::string_view kLayoutAny = "any";

enum class Codec : int32_t { kF32 = 0, kBf16 = 1, kF16 = 2, kInt8 = 3, kInt4 = 4 };

// What is known of a codec. This table is the one place that has their names.
struct CodecInfo {
  Codec codec;
  std::string_view name;  // as cache.codec spells it
  int bits;               // of one stored element
  bool scales;            // elements are integers with a scale for each row
};
inline constexpr CodecInfo kCodecTable[] = {
    {Codec::kF32, "f32", 32, false}, {Codec::kBf16, "bf16", 16, false},
    {Codec::kF16, "f16", 16, false}, {Codec::kInt8, "int8", 8, true},
    {Codec::kInt4, "int4", 4, true},
};

// The row of a codec; of a number that is no codec, "unknown" with 0 bits. (By value: a pointer
// into the table is no constant expression for GCC 12 under UndefinedBehaviorSanitizer.)
constexpr CodecInfo InfoOf(Codec codec) {
  for (const CodecInfo& info : kCodecTable) {
    if (info.codec == codec) return info;
  }
  return {codec, "unknown", 0, false};
}
constexpr std::string_view CodecName(Codec codec) { return InfoOf(codec).name; }
constexpr std::optional<Codec> CodecFromName(std::string_view name) {
  for (const CodecInfo& info : kCodecTable) {
    if (info.name == name) return info.codec;
  }
  return std::nullopt;
}
// All names in the table's order, for messages: "f32, bf16, f16, int8, int4".
std::string AllCodecNames();
// Bits of one stored element; 0 for a number that is no codec.
constexpr int CodecBits(Codec codec) { return InfoOf(codec).bits; }
// Whether elements are integers with a scale for each row.
constexpr bool HasScales(Codec codec) { return InfoOf(codec).scales; }

using SequenceId = int32_t;

// Where one of K and V lies within every page.
struct KvSide {
  Codec codec = Codec::kF32;
  int64_t offset = 0;       // bytes from the page's start to tile 0 of kv head 0 of this layer
  int64_t head_stride = 0;  // bytes from one kv head's tile 0 to the next head's
  int64_t tile_bytes = 0;   // bytes from one tile to the next of the same head
};

// What one kv head holds, where heads hold different numbers of tokens.
struct HeadSlots {
  int64_t gone = 0;        // tokens that have left this head
  int64_t n_kept = 0;      // so many of its first slots have tokens of KvView::positions,
  int64_t positions = 0;   // those from this one on
  int64_t first_tile = 0;  // in front of its own come so many tiles, of other heads

  bool operator==(const HeadSlots&) const = default;
};

// Borrowed from the store: valid until the sequence is changed by anything but Append.
struct KvView {
  std::string_view layout;
  std::span<const std::byte* const> pages;
  int64_t page_tokens = 0;  // slots per page, a multiple of kTileTokens
  int64_t length = 0;       // tokens of the sequence
  KvSide k;
  KvSide v;
  // For CacheStore::CopyRow. `store` is the one whose CopyRow reads the pages.
  const CacheStore* store = nullptr;
  SequenceId sequence = 0;
  int layer = 0;
  // Which of the tokens are held: bit t % 64 of word t / 64 is token t's. Empty: all of them are.
  // Only a store whose plan has `holes` gives it, and only to a backend that reads it (feature
  // "holes"): a token that is not held takes no part in attention. A page without a held token may
  // be null.
  std::span<const uint64_t> present = {};  // [length / 64, rounded up] or empty
  // Tokens before this one are not held, for they are outside of the spec's window: no query of the
  // step sees them, so a backend that keeps to the window need not look at this. Pages of nothing
  // but such tokens may be null, or those of later tokens.
  int64_t first = 0;
  // V is not held: it is the first numbers of each row of K, as K reads. `v` is then as `k`. Only a
  // store whose plan has `v_in_k` gives it, and only to a backend that reads it (feature "v_in_k").
  bool v_in_k = false;
  // So many tokens have left, in each kv head others. Those that a head holds have the slots
  // [0, length - gone), in the order of their positions. The first `n_kept` slots have the tokens
  // of `positions`; those behind them all have, slot by slot, the last tokens of the sequence. Only
  // a store whose plan has `slots` gives it, and only to a backend that reads it (feature "slots").
  int64_t gone = 0;
  int64_t n_kept = 0;
  std::span<const int32_t> positions = {};  // [n_kv_heads, n_kept], rising in each head
  // Where heads hold different numbers, what each of them holds; `gone` is then the least of theirs
  // and n_kept means nothing. Only a store whose plan has `head_slots` gives it, and only to a
  // backend that reads it (feature "head_slots").
  std::span<const HeadSlots> heads = {};  // [n_kv_heads] or empty

  // Whether all kv heads hold the token. REQUIRES: gone is 0 and `heads` is empty.
  bool Holds(int64_t token) const {
    if (token < first) return false;
    return present.empty() || (present[static_cast<size_t>(token / 64)] >> (token % 64) & 1) != 0;
  }

  // Of the head that holds most.
  int64_t n_slots() const { return length - gone; }
  HeadSlots SlotsOf(int kv_head) const {
    if (!heads.empty()) return heads[static_cast<size_t>(kv_head)];
    return {.gone = gone, .n_kept = n_kept, .positions = kv_head * n_kept};
  }
  int64_t n_slots(int kv_head) const { return length - GoneOf(kv_head); }
  int64_t GoneOf(int kv_head) const {
    return heads.empty() ? gone : heads[static_cast<size_t>(kv_head)].gone;
  }
  // The slot in which a kv head holds the token; -1: it does not.
  int64_t SlotOf(int kv_head, int64_t token) const {
    if (gone == 0 && heads.empty()) return Holds(token) ? token : -1;
    const HeadSlots own = SlotsOf(kv_head);
    if (token >= own.n_kept + own.gone) return token - own.gone;
    const std::span<const int32_t> kept = KeptBy(kv_head);
    const auto at = std::lower_bound(kept.begin(), kept.end(), token);
    return at != kept.end() && *at == token ? at - kept.begin() : -1;
  }
  bool Holds(int kv_head, int64_t token) const { return SlotOf(kv_head, token) >= 0; }
  // The token in a slot of a kv head. REQUIRES: 0 <= slot < n_slots(kv_head).
  int64_t TokenAt(int kv_head, int64_t slot) const {
    const HeadSlots own = SlotsOf(kv_head);
    if (slot >= own.n_kept) return slot + own.gone;
    return positions[static_cast<size_t>(own.positions + slot)];
  }
  // Of a kv head, what the first slots have. [n_kept of the head]
  std::span<const int32_t> KeptBy(int kv_head) const {
    const HeadSlots own = SlotsOf(kv_head);
    return positions.subspan(static_cast<size_t>(own.positions), static_cast<size_t>(own.n_kept));
  }

  // The tile that holds slots [16 * tile, 16 * tile + 16) of `kv_head`.
  const std::byte* Tile(const KvSide& side, int kv_head, int64_t tile) const {
    const int64_t tiles_per_page = page_tokens / kTileTokens;
    if (!heads.empty()) tile += heads[static_cast<size_t>(kv_head)].first_tile;
    return pages[static_cast<size_t>(tile / tiles_per_page)] + side.offset +
           kv_head * side.head_stride + (tile % tiles_per_page) * side.tile_bytes;
  }
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_KV_VIEW_H_
