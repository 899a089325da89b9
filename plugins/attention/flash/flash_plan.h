// Cutting a step into items that keep every thread of an executor busy. How it is cut changes no
// bit of the result (flash_kernel.h).
#ifndef NG_PLUGINS_ATTENTION_FLASH_FLASH_PLAN_H_
#define NG_PLUGINS_ATTENTION_FLASH_FLASH_PLAN_H_

#include <cstdint>

#include "ng/attention_backend.h"

namespace ng {

struct FlashPlanOptions {
  int threads = 1;
  int block_rows = 1;  // of the kernel
};

// Fills in items and scratch sizes for the plan's spec and rows. Items: longest first. Scratch:
// shared partials, then each worker's own. Allocates only while a plan has not been as large.
void CutIntoItems(const FlashPlanOptions& options, AttentionPlan* plan);

}  // namespace ng

#endif  // NG_PLUGINS_ATTENTION_FLASH_FLASH_PLAN_H_
