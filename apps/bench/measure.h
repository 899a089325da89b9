// One measurement: prefill and decode of a loaded engine. Each round also measures what the machine
// can do at that moment.
#ifndef NG_APPS_BENCH_MEASURE_H_
#define NG_APPS_BENCH_MEASURE_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "apps/bench/machine.h"
#include "apps/common/speed.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::bench {

// Checks that a workload fits the model's context. Errors: LimitError with the numbers and the
// remedy.
absl::Status CheckWorkload(const Workload& workload, const ModelShape& shape);

// What of a decode step the threads share.
struct StepRegions {
  double n = 0.0;             // parallel regions
  double serial_share = 0.0;  // of its time, what lies between them, on one thread
};

// Medians of the rounds.
struct Figures {
  Speed speed;
  std::optional<StepRegions> regions;  // where decode was asked for
  double read_gb_s = 0.0;
  double peak_gop_s = 0.0;
};

// Told after each round: its number, 0 for the one that warms up, and its speeds.
using OnRound = absl::FunctionRef<void(int64_t round, const Speed& speed)>;

// Runs one round to warm up, then the rounds that count, and then decodes once more, which counts
// the regions. Errors: those of the engine; InterruptedError. REQUIRES: the engine is loaded for
// NeedsOf(workload) or more, and was opened with this meter.
absl::StatusOr<Figures> Measure(Engine& engine, RegionMeter& regions, Machine& machine,
                                const Workload& workload, OnRound on_round);

// What a decoded token reads, on average over the decode steps: its share of the weights, and the
// keys and values of its own sequence.
double DecodeBytesPerToken(const StepCost& cost, const Workload& workload);
// Operations of all matrices in one prefill. A multiply-add counts as two; the head is computed for
// the last rows only.
double PrefillOperations(const StepCost& cost, const Workload& workload);

}  // namespace ng::bench

#endif  // NG_APPS_BENCH_MEASURE_H_
