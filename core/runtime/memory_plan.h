// What a run needs in memory, against what this machine (and its cgroup) can give.
#ifndef NG_CORE_RUNTIME_MEMORY_PLAN_H_
#define NG_CORE_RUNTIME_MEMORY_PLAN_H_

#include <cstdint>

#include "core/model/model_spec.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng {

struct MemoryPlan {
  int64_t weight_bytes = 0;        // packed weights
  int64_t load_scratch_bytes = 0;  // on top while loading
  int64_t cache_bytes = 0;
  int64_t activation_bytes = 0;  // the largest step's buffers
  int64_t available_bytes = 0;

  // The peak: scratch for loading and activations never live at the same time.
  int64_t needed_bytes() const;
};

// Memory that can still be had: the kernel's estimate, or what a cgroup's limit leaves.
int64_t AvailableMemory();

// Buffers of a step with `n_rows` rows of which `n_logit_rows` have logits.
int64_t ActivationBytes(const ModelSpec& spec, int64_t n_rows, int64_t n_logit_rows);

// Errors: LimitError with the bytes of each part and the bytes available.
absl::Status CheckMemory(const MemoryPlan& plan);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_MEMORY_PLAN_H_
