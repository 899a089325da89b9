// The floating point operations of a run, with the cache and without it. A multiply-add counts as
// two.
#ifndef NG_APPS_PLAN_OPERATIONS_H_
#define NG_APPS_PLAN_OPERATIONS_H_

#include <cstdint>

#include "ng/run_plan.h"

namespace ng::plan {

// The steps of one sequence: a prompt, and then tokens that are fed one by one.
struct Run {
  int64_t prompt_tokens = 512;
  int64_t decode_tokens = 64;
  // Of several ranks: what each machine's link sends, and until a message is there.
  int64_t link_mbit = 1000;
  int64_t link_us = 50;
  // What each machine reads in a second of weights and cache while it decodes.
  int64_t memory_mbyte = 20000;
};

// Doubles, because long runs of large models exceed 2^63.
struct Operations {
  double matrices = 0.0;   // the layers' matrices, for every row
  double head = 0.0;       // the head, for the last row of each step
  double attention = 0.0;  // q . k and weights * v, for every query, each key it sees, each layer
  double total() const { return matrices + head + attention; }
};

// The operations of all layers for one row; those of the head for one row; those of all layers for
// one key that one query sees.
struct UnitOperations {
  double row = 0.0;
  double logit_row = 0.0;
  double key = 0.0;
};
UnitOperations UnitsOf(const StepCost& cost);

// Every token is fed once.
Operations WithCache(const UnitOperations& units, const Run& run);
// Every step after the prompt feeds all tokens so far again, as run.use_cache = false does.
Operations WithoutCache(const UnitOperations& units, const Run& run);

}  // namespace ng::plan

#endif  // NG_APPS_PLAN_OPERATIONS_H_
