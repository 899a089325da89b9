// Byte pair encoding: joins neighbouring symbols, the best pair first, until no pair can be joined.
#ifndef NG_CORE_TEXT_BPE_BPE_MERGE_H_
#define NG_CORE_TEXT_BPE_BPE_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"

namespace ng {

struct BpeSymbol {
  int32_t id = -1;    // -1: it is no token
  size_t begin = 0;   // in the text
  size_t length = 0;  // bytes, at least one

  friend bool operator==(const BpeSymbol&, const BpeSymbol&) = default;
};

struct BpeMerge {
  double rank = 0;  // the lowest joins first; among equal ranks the leftmost pair
  int32_t id = -1;  // the id of the joined symbol, at least 0
};

// The symbol that two neighbours join to, or nothing if they do not join.
using BpeMergeOf =
    absl::FunctionRef<std::optional<BpeMerge>(const BpeSymbol& left, const BpeSymbol& right)>;

// Joins in place, in O(n log n). REQUIRES: the symbols follow each other without gaps; what two of
// them join to depends on nothing but their ids and their text.
void MergeSymbols(BpeMergeOf merge_of, std::vector<BpeSymbol>* symbols);

// The same by one queue of all pairs: the plain way, for tests.
void MergeSymbolsByQueue(BpeMergeOf merge_of, std::vector<BpeSymbol>* symbols);

}  // namespace ng

#endif  // NG_CORE_TEXT_BPE_BPE_MERGE_H_
