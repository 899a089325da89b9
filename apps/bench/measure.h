// One measurement: prefill and decode of a loaded engine, round by round with what the machine can
// do at that moment.
#ifndef NG_APPS_BENCH_MEASURE_H_
#define NG_APPS_BENCH_MEASURE_H_

#include <cstdint>
#include <optional>

#include "apps/bench/machine.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::bench {

struct Workload {
  int64_t prompt_tokens = 0;  // of each sequence's prefill; 0: none
  int64_t decode_tokens = 0;  // decode steps; 0: none
  int64_t depth = 0;          // tokens that each sequence holds before the first of them
  int batch = 1;              // sequences side by side
  int64_t repeat = 1;         // rounds that count
};

// That a workload fits the model's context. Errors: LimitError with the numbers and the remedy.
absl::Status CheckWorkload(const Workload& workload, const ModelShape& shape);

// What a measurement needs room for.
RunNeeds NeedsOf(const Workload& workload);

// Medians of the rounds; what was not asked for is absent.
struct Figures {
  std::optional<double> prefill_tok_s;  // of all sequences together
  std::optional<double> decode_tok_s;
  double read_gb_s = 0.0;
  double peak_gop_s = 0.0;
};

// Random ids, one round to warm up, then the rounds that count. Decode at depth 0 follows one
// token: a step needs something to follow. Errors: those of the engine; InterruptedError. REQUIRES:
// the engine is loaded for NeedsOf(workload) or more.
absl::StatusOr<Figures> Measure(Engine& engine, Machine& machine, const Workload& workload);

// What a decoded token reads, on average over the decode steps: its share of the weights, and the
// keys and values of its own sequence.
double DecodeBytesPerToken(const StepCost& cost, const Workload& workload);
// Operations of all matrices in one prefill: two a multiply-add, the head for last rows only.
double PrefillOperations(const StepCost& cost, const Workload& workload);

}  // namespace ng::bench

#endif  // NG_APPS_BENCH_MEASURE_H_
