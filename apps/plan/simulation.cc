#include "apps/plan/simulation.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace ng::plan {
namespace {

constexpr int kMostMachines = 64;

double BytesPerSecond(int64_t mbit) { return static_cast<double>(mbit) * 1e6 / 8; }

// What a step of one row reads when the run has come to its end.
double ReadBytes(const StepCost& step, const Run& run) {
  const int64_t length = run.prompt_tokens + run.decode_tokens;
  double bytes =
      static_cast<double>(step.weight_bytes) + 2.0 * static_cast<double>(step.state_bytes);
  return bytes + static_cast<double>(ReadAt(step.cache_reads, length).bytes());
}

// Empty where the model cannot be cut so.
absl::StatusOr<std::optional<RunPlan>> PlanOf(EngineOptions options, int n, bool by_layers,
                                              const RunNeeds& needs) {
  options.plan_ranks = n;
  options.warning = nullptr;
  options.overrides.emplace_back(absl::StrCat("fabric.split=", by_layers ? "layers" : "heads"));
  options.overrides.emplace_back("fabric.groups=1");
  const auto engine = Engine::Open(options);
  if (absl::IsFailedPrecondition(engine.status()) && n > 1) return std::nullopt;
  NG_RETURN_IF_ERROR(engine.status());
  NG_ASSIGN_OR_RETURN(RunPlan plan, (*engine)->Plan(needs));
  return plan;
}

SplitTime TimeOf(const RunPlan& plan, const StepCost& reads, const Run& run) {
  return {.needed_bytes = plan.needed_bytes(),
          .sent_bytes = SentBytes(plan),
          .compute_s = ReadBytes(reads, run) / (static_cast<double>(run.memory_mbyte) * 1e6),
          .links_s = LinkSeconds(plan, run)};
}

}  // namespace

int64_t SentBytes(const RunPlan& plan) {
  return (plan.ranks - 1) * (plan.gathered_row_bytes + plan.gathered_logit_bytes +
                             plan.gathered_step_bytes + plan.gathered_piece_bytes);
}

double LinkSeconds(const RunPlan& plan, const Run& run) {
  if (plan.ranks == 1) return 0.0;
  const double bytes_s = BytesPerSecond(run.link_mbit);
  const double latency_s = static_cast<double>(run.link_us) * 1e-6;
  if (!plan.by_layers) {  // each rank sends its share of all that
    return static_cast<double>(plan.gathers) * latency_s +
           static_cast<double>(SentBytes(plan)) / plan.ranks / bytes_s;
  }
  // A row goes from one to the next, and logits from one to two, then four.
  const int rounds = std::bit_width(static_cast<unsigned>(plan.ranks - 1));
  const auto hop_s = [&](int64_t bytes) {
    return latency_s + static_cast<double>(bytes) / bytes_s;
  };
  const int64_t meetings = 2;
  return (plan.ranks - 1) * hop_s(plan.gathered_row_bytes + plan.gathered_piece_bytes) +
         rounds * hop_s(plan.gathered_logit_bytes) +
         meetings * hop_s(plan.gathered_step_bytes / meetings);
}

absl::StatusOr<std::vector<Machines>> Simulate(const EngineOptions& options, const RunNeeds& needs,
                                               const Run& run) {
  NG_ASSIGN_OR_RETURN(const std::optional<RunPlan> whole, PlanOf(options, 1, false, needs));
  const SplitTime alone = TimeOf(*whole, whole->step, run);
  std::vector<Machines> all = {{1, alone, alone}};
  std::set<int> counts = {std::max(2, options.plan_ranks)};
  for (int n = 2; n <= kMostMachines; n *= 2) counts.insert(n);
  for (const int n : counts) {
    Machines& machines = all.emplace_back();
    machines.n = n;
    NG_ASSIGN_OR_RETURN(const std::optional<RunPlan> heads, PlanOf(options, n, false, needs));
    if (heads) machines.heads = TimeOf(*heads, heads->step, run);
    NG_ASSIGN_OR_RETURN(const std::optional<RunPlan> layers, PlanOf(options, n, true, needs));
    // One machine after the other computes, so together as long as one.
    if (layers) machines.layers = TimeOf(*layers, whole->step, run);
  }
  return all;
}

Fastest FastestOf(const std::vector<Machines>& all) {
  Fastest fastest;
  for (const Machines& machines : all) {
    for (const bool by_layers : {false, true}) {
      const std::optional<SplitTime>& time = by_layers ? machines.layers : machines.heads;
      if (!time || (fastest.total_s > 0.0 && time->total_s() >= fastest.total_s)) continue;
      fastest = {machines.n, by_layers, time->total_s()};
    }
  }
  return fastest;
}

}  // namespace ng::plan
