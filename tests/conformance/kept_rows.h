// What a cache store must hold of a sequence, kept as plain vectors, and how a store is held
// against it: rows, tiles, images of snapshots.
//
// A token's keys and values come from all ids up to it, so that sequences that begin alike hold
// the same there.
#ifndef NG_TESTS_CONFORMANCE_KEPT_ROWS_H_
#define NG_TESTS_CONFORMANCE_KEPT_ROWS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ng/cache_store.h"
#include "tests/conformance/tiles16.h"

namespace ng {

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
  // [part][token][n_layers, n_kv_heads, head_dim]
  std::array<std::vector<std::vector<float>>, 2> rows;
  int64_t length() const { return static_cast<int64_t>(rows[0].size()); }
};

class KeptRows {
 public:
  explicit KeptRows(const CacheSpec& spec) : spec_(spec) {}

  // The row of one part, in all layers and heads, that the sum stands for; not yet rounded.
  std::vector<float> RowOf(uint64_t sum, int part) const;
  void AddToken(uint64_t sum, int32_t id, KeptSequence* kept) const;

  // What a sequence's image must be, spelled out row by row.
  int64_t ImageTileBytes() const;
  std::vector<std::byte> ImageOf(const KeptSequence& kept, int layer) const;

  // What is wrong with one layer of a store's sequence; empty when nothing is.
  std::string CompareLayer(const CacheStore& store, SequenceId id, const KeptSequence& kept,
                           int layer) const;

 private:
  Tiles16Side SideOf(KvPart part) const;
  std::vector<float> Rounded(std::vector<float> row, int part) const;
  bool PadIsZero(KvPart part, const KvView& view, int64_t token) const;

  const CacheSpec spec_;
};

}  // namespace ng

#endif  // NG_TESTS_CONFORMANCE_KEPT_ROWS_H_
