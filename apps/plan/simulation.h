// How long a decoded token takes on many machines: what each of them reads at the bandwidth of its
// memory, and what they send at the bandwidth and latency of their links. Both are given.
#ifndef NG_APPS_PLAN_SIMULATION_H_
#define NG_APPS_PLAN_SIMULATION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/plan/operations.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng::plan {

// Of one way to cut the model (fabric.split).
struct SplitTime {
  int64_t needed_bytes = 0;  // of the machine that takes most
  int64_t sent_bytes = 0;    // for a decoded token, on all links
  double compute_s = 0.0;    // of a decoded token of one sequence
  double links_s = 0.0;

  double total_s() const { return compute_s + links_s; }
};

// So many machines. A way in which the model cannot be cut is not there.
struct Machines {
  int n = 1;
  std::optional<SplitTime> heads;
  std::optional<SplitTime> layers;
};

// Bytes on all links for a decoded token.
int64_t SentBytes(const RunPlan& plan);
// Seconds that a decoded token waits for the links, of which each machine has one.
double LinkSeconds(const RunPlan& plan, const Run& run);

// 1, 2, 4 to 64 machines, and as many as the options plan for. Errors: as Engine::Open and Plan.
absl::StatusOr<std::vector<Machines>> Simulate(const EngineOptions& options, const RunNeeds& needs,
                                               const Run& run);

// The fewest machines that are as fast as any, and how the model is cut there.
struct Fastest {
  int n = 1;
  bool by_layers = false;
  double total_s = 0.0;
};
Fastest FastestOf(const std::vector<Machines>& all);

}  // namespace ng::plan

#endif  // NG_APPS_PLAN_SIMULATION_H_
