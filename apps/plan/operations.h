// What a run computes, with the cache and without: floating point operations, two for every
// multiply-add.
#ifndef NG_APPS_PLAN_OPERATIONS_H_
#define NG_APPS_PLAN_OPERATIONS_H_

#include <cstdint>

#include "ng/engine.h"
#include "ng/plugin.h"

namespace ng::plan {

// A prompt, and so many tokens fed after it one by one: the steps of one sequence.
struct Run {
  int64_t prompt_tokens = 512;
  int64_t decode_tokens = 64;
};

// In doubles: long runs of large models pass 2^63.
struct Operations {
  double matrices = 0.0;   // of the layers, for every row
  double head = 0.0;       // for the last row of each step
  double attention = 0.0;  // q . k and weights * v, for every query, key up to its own, and layer
  double total() const { return matrices + head + attention; }
};

// For one row; for one row with logits; for one key that one query sees, in all layers.
struct UnitOperations {
  double row = 0.0;
  double logit_row = 0.0;
  double key = 0.0;
};
UnitOperations UnitsOf(const StepCost& cost, const ModelShape& shape);

// Every token is fed once.
Operations WithCache(const UnitOperations& units, const Run& run);
// Every step after the prompt feeds all tokens so far again, as run.use_cache = false does.
Operations WithoutCache(const UnitOperations& units, const Run& run);

}  // namespace ng::plan

#endif  // NG_APPS_PLAN_OPERATIONS_H_
