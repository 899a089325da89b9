// How the weights of a decoder are read.
#ifndef NG_CORE_MODEL_LOAD_LOAD_OPTIONS_H_
#define NG_CORE_MODEL_LOAD_LOAD_OPTIONS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/model/weights/weight_types.h"
#include "ng/executor.h"

namespace ng {

// Of each binding in turn, the hashes of the rows that are read at a time; empty where it is read
// as a whole.
using RowHashes = std::vector<std::vector<uint64_t>>;

struct LoadWeightsOptions {
  WeightTypes types;  // of this model's matrices
  Executor* executor = nullptr;
  const std::atomic<bool>* stop = nullptr;                                     // may be null
  std::function<void(int64_t bytes_done, int64_t bytes_total)> progress = {};  // may be empty
  // Range i of the executor packs what range i of a matmul reads, so that the system puts it into
  // memory near the core that reads it. Worth the wait where threads keep to their cores.
  bool own_shares = false;
  bool hash = false;                // wanted: it takes a look at every byte more
  RowHashes* row_hashes = nullptr;  // with `hash`: wanted too
};

}  // namespace ng

#endif  // NG_CORE_MODEL_LOAD_LOAD_OPTIONS_H_
