#include "apps/bench/measure.h"

#include <chrono>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ng::bench {

absl::Status CheckWorkload(const Workload& workload, const ModelShape& shape) {
  const int64_t t_max = shape.max_positions;
  if (t_max == 0) return absl::OkStatus();
  if (workload.prompt_tokens > t_max) {
    return LimitError(absl::StrCat("prompt ", workload.prompt_tokens, " > ", t_max,
                                   " T_max; lower --prompt-tokens to ", t_max));
  }
  const int64_t end = HeldTokens(workload) + workload.decode_tokens;
  if (workload.decode_tokens > 0 && end > t_max) {
    return LimitError(absl::StrCat("depth ", HeldTokens(workload), " + decode ",
                                   workload.decode_tokens, " = ", end, " > ", t_max,
                                   " T_max; lower --depth or --decode-tokens"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Figures> Measure(Engine& engine, RegionMeter& regions, Machine& machine,
                                const Workload& workload, OnRound on_round) {
  NG_ASSIGN_OR_RETURN(const StepCost cost, engine.CostOfStep());
  const Arithmetic arithmetic = ArithmeticFor(cost.weights, engine.isa());
  SpeedMeter meter(engine, workload);
  NG_RETURN_IF_ERROR(meter.Open());
  std::vector<double> read, peak;
  for (int64_t round = 0; round <= workload.repeat; ++round) {
    NG_ASSIGN_OR_RETURN(read.emplace_back(), machine.ReadGbPerSecond());
    NG_ASSIGN_OR_RETURN(peak.emplace_back(), machine.PeakGopPerSecond(arithmetic));
    NG_ASSIGN_OR_RETURN(const Speed speed, meter.Round());
    on_round(round, speed);
  }
  Figures figures;
  figures.speed = meter.Medians();
  figures.read_gb_s = MedianButFirst(read);
  figures.peak_gop_s = MedianButFirst(peak);
  if (workload.decode_tokens > 0) {
    NG_ASSIGN_OR_RETURN(const double seconds, meter.CountDecode(regions));
    const double inside = std::chrono::duration<double>(regions.inside).count();
    figures.regions = {static_cast<double>(regions.regions) / workload.decode_tokens,
                       1.0 - inside / seconds};
  }
  return figures;
}

double DecodeBytesPerToken(const StepCost& cost, const Workload& workload) {
  // The step that consumes the token at position p looks at p + 1 tokens, or those of a window.
  double cache_bytes = 0.0;
  for (int64_t i = 0; i < workload.decode_tokens; ++i) {
    const int64_t cached = HeldTokens(workload) + i + 1;
    cache_bytes += static_cast<double>(ReadAt(cost.cache_reads, cached).bytes()) /
                   static_cast<double>(workload.decode_tokens);
  }
  return static_cast<double>(cost.weight_bytes) / workload.batch +
         static_cast<double>(cost.state_bytes) + cache_bytes;
}

double PrefillOperations(const StepCost& cost, const Workload& workload) {
  const double rows =
      static_cast<double>(cost.row_multiply_adds) * static_cast<double>(workload.prompt_tokens);
  return 2.0 * workload.batch * (rows + static_cast<double>(cost.logit_multiply_adds));
}

}  // namespace ng::bench
