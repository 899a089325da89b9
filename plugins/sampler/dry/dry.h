// DRY, "don't repeat yourself" (Weidmann 2024; as llama.cpp has it): a token that would go on with
// a repetition is made less probable. Where the last n tokens occur earlier, n as large as it can
// be, the token that followed them there loses
//
//   multiplier * base^(n - allowed)        if n >= allowed
//
// of its logit; of several such places the longest counts. A repetition does not reach over a
// breaker, a token whose text holds one of given texts, and a breaker itself loses nothing.
#ifndef NG_PLUGINS_SAMPLER_DRY_DRY_H_
#define NG_PLUGINS_SAMPLER_DRY_DRY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ng/history_stage.h"
#include "ng/plugin.h"

namespace ng {

struct DryOptions {
  double multiplier = 0.8;  // in [0, 100]; 0: nothing is done
  double base = 1.75;       // in [1, 10]
  int64_t allowed = 2;      // at least 1
  int64_t window = 0;       // tokens looked back on; 0: all
  std::span<const std::string_view> breakers = {};
};

class Dry final : public TokenHistoryStage {
 public:
  // Errors: UsageError when an option is out of range.
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(const DryOptions& options,
                                                              const PluginContext& context);

  // Errors: UsageError for a token outside the vocabulary.
  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override;

  // O(window) while the candidates are dense, else O(window + candidates).
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;

 private:
  Dry(const DryOptions& options, const PluginContext& context);
  float Penalty(int32_t repeated) const;
  // Fills repeated_ for every token that goes on with a repetition, and following_ with those.
  void FindRepetitions(std::span<const int32_t> recent);

  const double multiplier_;
  const double base_;
  const int32_t allowed_;
  const int64_t window_;
  std::vector<uint8_t> breaks_;     // [vocab_size]: 1 for a breaker
  std::vector<int32_t> repeated_;   // [vocab_size]: above 0 during Apply only
  std::vector<int32_t> following_;  // the tokens that have a value there
  std::vector<int32_t> matches_;    // [recent]
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_DRY_DRY_H_
