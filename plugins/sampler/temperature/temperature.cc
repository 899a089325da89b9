#include "plugins/sampler/temperature/temperature.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {

absl::StatusOr<std::unique_ptr<SamplerStage>> Temperature::Create(double value) {
  if (!(value > 0.0 && value <= 100.0)) {
    return UsageError(absl::StrCat("sampler.temperature.value = ", value,
                                   ", must be in (0, 100]; the limit at 0 is the stage greedy"));
  }
  return absl::WrapUnique(new Temperature(static_cast<float>(value)));
}

absl::Status Temperature::Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) {
  candidates.DivideBy(value_);
  absl::Status status = candidates.MaxLogit().status();
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("divided by sampler.temperature.value = ", value_,
                                       " (the limit at 0 is the stage greedy): "));
}

}  // namespace ng
