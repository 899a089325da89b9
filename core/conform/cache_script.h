// Random scripts of what an engine does with a store, run on the store and on a plain model of
// vectors. After each step all rows, lengths and (layout "tiles16") tiles must agree, and at the
// end everything must have been given back.
//
// Sequences follow one of a few texts, now and then another id, and sometimes nobody says which ids
// rows belong to. Images of sequences must be as ng/cache_capabilities.h says, byte for byte, and
// make other sequences.
#ifndef NG_CORE_CONFORM_CACHE_SCRIPT_H_
#define NG_CORE_CONFORM_CACHE_SCRIPT_H_

#include <cstdint>
#include <string>

#include "ng/cache_store.h"

namespace ng::conform {

enum CacheOp : uint32_t {
  kOpen = 1U << 0U,
  kOpenFor = 1U << 1U,  // for a prompt; as kOpen where the store shares no prefixes
  kFork = 1U << 2U,
  kTruncate = 1U << 3U,
  kClose = 1U << 4U,
  kOverflow = 1U << 5U,
  kAbandon = 1U << 6U,   // an append that is not committed
  kSnapshot = 1U << 7U,  // nothing where the store has no snapshots
  kAppend = 1U << 8U,
};
inline constexpr uint32_t kAllOps = (1U << 9U) - 1U;

struct CacheScript {
  uint32_t ops = kAllOps;  // a script chooses from these
  uint32_t seed = 1;
  int n_steps = 150;
};

// What is wrong, after which steps; empty when nothing is. The store is empty before.
// REQUIRES: spec is the store's, with max_step_tokens >= 1.
std::string RunCacheScript(CacheStore& store, const CacheSpec& spec, const CacheScript& script);

}  // namespace ng::conform

#endif  // NG_CORE_CONFORM_CACHE_SCRIPT_H_
