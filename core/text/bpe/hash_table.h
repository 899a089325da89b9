// Reserves room in Abseil's hash tables. They do not survive a failed allocation of their own.
#ifndef NG_CORE_TEXT_BPE_HASH_TABLE_H_
#define NG_CORE_TEXT_BPE_HASH_TABLE_H_

#include <cstddef>
#include <new>

#include "ng/memory_reserve.h"

namespace ng {

// Gives an empty table room for `n` elements. The table allocates here, and not later when that
// many are put in. What an element itself allocates must be allocated before it is moved in. Throws
// bad_alloc.
template <typename Table>
void MakeRoom(size_t n, Table* table) {
  // More than twice as many places as elements; a place has one byte beside the element.
  const size_t most_bytes = (3 * n + 64) * (sizeof(typename Table::value_type) + 1);
  const MemoryReserve reserve(most_bytes, MemoryReserve::For::kEverything);
  table->reserve(n);
  if (reserve.used()) throw std::bad_alloc();
}

}  // namespace ng

#endif  // NG_CORE_TEXT_BPE_HASH_TABLE_H_
