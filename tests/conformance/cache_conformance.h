// What every cache plugin must do, as a list of what it does not.
//
// Random scripts of open (for a prompt or not), append, commit, fork, truncate and close are run on
// a store and on a plain model of vectors; after each step all rows, lengths and (layout "tiles16")
// tiles must agree, and at the end everything must have been given back. Sequences follow one of a
// few texts, now and then another id, and sometimes nobody says which ids rows belong to. Images of
// sequences (ExportLayer) must be as ng/cache_store.h says byte for byte, and make other sequences.
// tests/conformance/cache_conformance_test.cc shows which faults are found.
#ifndef NG_TESTS_CONFORMANCE_CACHE_CONFORMANCE_H_
#define NG_TESTS_CONFORMANCE_CACHE_CONFORMANCE_H_

#include <span>
#include <string>
#include <vector>

#include "ng/kv_view.h"
#include "tests/conformance/attention_rig.h"

namespace ng {

struct CacheConformanceOptions {
  IsaLevel isa = IsaLevel::kScalar;
  uint32_t seed = 1;
  int script_steps = 150;
  // The store may be too small for max_sequences of max_tokens: it may refuse to open while others
  // are open, and rows of a sequence that was truncated.
  bool may_be_full = false;
};

// One line for each failure (at most one for each script); empty for a conforming plugin. Rows of
// f32, bf16 and f16 must read back as exactly the rounded rows.
std::vector<std::string> CheckCache(const MakeCache& make, const CacheConformanceOptions& options);

}  // namespace ng

#endif  // NG_TESTS_CONFORMANCE_CACHE_CONFORMANCE_H_
