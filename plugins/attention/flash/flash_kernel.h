// The kernel of the flash backend: one work item, on one thread, on one ISA level.
//
// The keys of a sequence are cut at multiples of kSplitKeys from position 0. Within a split a query
// sees scores, their maximum, e^(score - maximum) in key order and the weighted values, each value
// dimension summed key by key; then (maximum, sum, out) is merged into the splits to its left. The
// softmax over splits is that of Milakov & Gimelshein 2018 and Dao et al. 2022. Every query goes
// through exactly these f32 operations whatever else is computed beside it: this is the bit
// contract.
#ifndef NG_PLUGINS_ATTENTION_FLASH_FLASH_KERNEL_H_
#define NG_PLUGINS_ATTENTION_FLASH_FLASH_KERNEL_H_

#include <cstdint>

#include "ng/attention_backend.h"
#include "ng/isa.h"

namespace ng {

// Part of the bit contract: never depends on the shape or the machine.
inline constexpr int kSplitKeys = 256;

struct FlashKernel {
  // Scratch of one worker for items of up to `n_rows` rows (queries times heads that share a kv
  // head); a multiple of 16.
  int64_t (*scratch_floats)(int head_dim, int64_t n_rows);
  // [worker] scratch: 64-byte aligned.
  void (*attend)(const AttentionPlan& plan, const AttentionRun& run, const AttentionItem& item,
                 float* scratch);
};

// REQUIRES: the CPU supports the level.
const FlashKernel& GetFlashKernel(IsaLevel level);

// One for each level.
const FlashKernel& ScalarFlashKernel();
const FlashKernel& Avx2FlashKernel();
const FlashKernel& Avx512FlashKernel();

}  // namespace ng

#endif  // NG_PLUGINS_ATTENTION_FLASH_FLASH_KERNEL_H_
