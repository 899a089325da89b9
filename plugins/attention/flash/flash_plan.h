// Cutting a step into items that keep every thread of an executor busy. How it is cut changes no
// bit of the result (flash_kernel.h).
#ifndef NG_PLUGINS_ATTENTION_FLASH_FLASH_PLAN_H_
#define NG_PLUGINS_ATTENTION_FLASH_FLASH_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ng/attention_backend.h"
#include "plugins/attention/flash/flash_kernel.h"

namespace ng {

struct FlashPlan : AttentionPlan {
  using AttentionPlan::AttentionPlan;

  std::vector<FlashItem> items;    // longest first
  std::vector<FlashItem> choices;  // each query and kv head that reads some tiles only, whole
  int64_t worker_floats = 0;       // of the scratch, each worker's own
};

struct FlashPlanOptions {
  int threads = 1;
  int block_rows = 1;  // of the kernel
  // The most tiles that a query reads of each kv head, at least 2: its own, the first that it sees,
  // and others of those between. 0: all.
  int64_t most_tiles = 0;
};

// Fills the plan for these rows. Scratch: shared partials and lists of chosen tiles, then each
// worker's own. Allocates only
// while the plan has not been as large.
void CutIntoItems(const FlashPlanOptions& options, std::span<const SequenceRows> rows,
                  FlashPlan& plan);

}  // namespace ng

#endif  // NG_PLUGINS_ATTENTION_FLASH_FLASH_PLAN_H_
