// What a cache store must hold of a sequence, kept as plain vectors, and how a store is held
// against it: rows, tiles, images of snapshots.
//
// A token's keys and values come from all ids up to it, so that sequences that begin alike hold
// the same there. A store with one of ng's codecs must give back exactly the rounded rows. What a
// store with a codec of its own must give back is learned from it: something near to the row the
// first time, and from then on the same bits wherever that row is stored. An approximate store must
// stay near.
#ifndef NG_CORE_CONFORM_KEPT_ROWS_H_
#define NG_CORE_CONFORM_KEPT_ROWS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ng/cache_store.h"
#include "ng/conform/plain_tiles.h"

namespace ng::conform {

inline constexpr KvPart kParts[] = {KvPart::kKey, KvPart::kValue};
inline constexpr int32_t kUnknown = -1;  // an id that nobody said

// The sum of the ids of a text, the next one mixed into it.
uint64_t Mix(uint64_t sum, uint64_t id);

inline int64_t TilesFor(int64_t n_tokens) { return (n_tokens + kTileTokens - 1) / kTileTokens; }

// What a sequence holds; rows already rounded.
struct KeptSequence {
  int64_t capacity = 0;
  int text = 0;                // that it follows
  bool truncated = false;      // since it was opened
  std::vector<uint64_t> sums;  // [token]
  std::vector<int32_t> ids;    // [token], kUnknown where nobody said
  // [part][token][n_layers, n_kv_heads, WidthOf(part)]
  std::array<std::vector<std::vector<float>>, 2> rows;
  int64_t length() const { return static_cast<int64_t>(rows[0].size()); }
};

enum class Exactness { kCodec, kLearned, kNear };

class KeptRows {
 public:
  KeptRows(const CacheSpec& spec, const CachePlan& plan)
      : spec_(spec),
        keys_alone_(plan.v_in_k),
        exactness_(plan.approximate     ? Exactness::kNear
                   : plan.codec.empty() ? Exactness::kCodec
                                        : Exactness::kLearned),
        holes_(plan.holes),
        slots_(plan.most_slots()),
        head_slots_(plan.head_slots > 0) {}

  // The row of one part, in all layers and heads, that the sum stands for; not yet rounded.
  std::vector<float> RowOf(uint64_t sum, int part) const;
  // The values that are in a row of keys.
  std::vector<float> InKeys(const std::vector<float>& keys) const;
  void AddToken(uint64_t sum, int32_t id, KeptSequence* kept) const;

  // What a sequence's image must be, spelled out row by row.
  int64_t ImageTileBytes() const;
  std::vector<std::byte> ImageOf(const KeptSequence& kept, int layer) const;

  // What is wrong with one layer of a store's sequence; empty when nothing is.
  std::string CompareLayer(const CacheStore& store, SequenceId id, const KeptSequence& kept,
                           int layer);

 private:
  Tiles16Side SideOf(KvPart part) const;
  std::vector<float> Rounded(std::vector<float> row, int part) const;
  bool PadIsZero(KvPart part, const KvView& view, int64_t token) const;
  // Whether a row is what must be stored of `want`. `place` is the row's own: its sum, part, layer
  // and head.
  bool IsAsWanted(std::span<const float> row, std::span<const float> want, uint64_t place);

  const CacheSpec spec_;
  const bool keys_alone_;
  const Exactness exactness_;
  const bool holes_;
  const int64_t slots_;  // of a kv head
  const bool head_slots_;
  std::map<uint64_t, std::vector<float>> learned_;  // by place
};

}  // namespace ng::conform

#endif  // NG_CORE_CONFORM_KEPT_ROWS_H_
