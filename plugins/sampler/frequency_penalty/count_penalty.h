// Makes tokens less probable that were used lately, as OpenAI's API defines it and llama.cpp does:
//
//   frequency: logit -= value * count        presence: logit -= value, if count > 0
//
// where count is how often the token occurs among the last `window` of prompt and answer. A value
// below 0 rewards repetition. Of the stages frequency_penalty and presence_penalty.
#ifndef NG_PLUGINS_SAMPLER_FREQUENCY_PENALTY_COUNT_PENALTY_H_
#define NG_PLUGINS_SAMPLER_FREQUENCY_PENALTY_COUNT_PENALTY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ng/history_stage.h"
#include "ng/plugin.h"

namespace ng {

enum class CountsAs { kFrequency, kPresence };

struct CountPenaltyOptions {
  double value = 0.5;   // in [-100, 100]
  int64_t window = 64;  // tokens looked back on; 0: all
};

class CountPenalty final : public TokenHistoryStage {
 public:
  CountPenalty(CountsAs counts_as, const CountPenaltyOptions& options, const ModelShape& model)
      : TokenHistoryStage(model),
        counts_as_(counts_as),
        options_(options),
        counts_(model.vocab_size) {}

  // Errors: UsageError for a token outside the vocabulary.
  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override {
    NG_RETURN_IF_ERROR(CheckPrompt(Name(), prompt_ids));
    return TokenHistoryStage::Open(slot, prompt_ids);
  }

  // O(window) while the candidates are dense, else O(window + candidates).
  absl::Status Apply(int slot, const DrawKey& /*key*/, CandidateSet& candidates) override {
    const std::span<const int32_t> recent = Recent(slot, options_.window);
    for (const int32_t id : recent) ++counts_[id];
    const bool dense = candidates.dense();
    if (!dense) {
      for (Candidate& candidate : candidates.items()) {
        candidate.logit -= Penalty(counts_[candidate.id]);
      }
    }
    for (const int32_t id : recent) {
      if (dense && counts_[id] > 0) candidates.LogitOf(id) -= Penalty(counts_[id]);
      counts_[id] = 0;
    }
    const absl::Status status = candidates.MaxLogit().status();
    return status.ok() ? status : Annotate(status, "after sampler." + Name() + ": ");
  }

 private:
  std::string Name() const {
    return counts_as_ == CountsAs::kFrequency ? "frequency_penalty" : "presence_penalty";
  }
  float Penalty(int32_t count) const {
    if (counts_as_ == CountsAs::kPresence) count = count > 0 ? 1 : 0;
    return static_cast<float>(options_.value * count);
  }

  const CountsAs counts_as_;
  const CountPenaltyOptions options_;
  std::vector<int32_t> counts_;  // [vocab_size]: above 0 during Apply only
};

// What both stages declare; `value_help` says what the value does.
constexpr OptionSpec CountPenaltyValue(const char* value_help) {
  return RealOption("value", 0.5, {.min = -100, .max = 100}, value_help);
}
inline constexpr OptionSpec kCountPenaltyWindow =
    IntOption("window", 64, {.min = 0, .max = 2147483647},
              "how many tokens of prompt and answer count; 0: all");

template <CountsAs kCountsAs>
absl::StatusOr<std::unique_ptr<SamplerStage>> CreateCountPenalty(const PluginContext& context) {
  const CountPenaltyOptions options = {.value = context.options.Real("value"),
                                       .window = context.options.Int("window")};
  return std::make_unique<CountPenalty>(kCountsAs, options, context.model);
}

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_FREQUENCY_PENALTY_COUNT_PENALTY_H_
