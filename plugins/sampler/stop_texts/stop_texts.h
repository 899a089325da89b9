// Ends an answer at one of some texts, wherever in a token it begins or ends. The text itself, and
// what follows it in the same token, are no part of the answer's text; the ids keep them. While the
// end of the answer may be the beginning of such a text, it is held back.
#ifndef NG_PLUGINS_SAMPLER_STOP_TEXTS_STOP_TEXTS_H_
#define NG_PLUGINS_SAMPLER_STOP_TEXTS_STOP_TEXTS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/history_stage.h"
#include "ng/plugin.h"

namespace ng {

class StopTexts final : public TokenHistoryStage {
 public:
  // Errors: UsageError for texts where the model has no tokenizer.
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(
      std::span<const std::string_view> texts, const PluginContext& context);

  // The prompt's text does not count.
  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override;
  absl::StatusOr<SequenceEnd> Accept(int slot, int32_t token) override;
  absl::Status Fork(int from, int to) override;
  absl::Status Truncate(int slot, int64_t n_tokens) override;
  // Changes nothing.
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;
  absl::StatusOr<int64_t> HeldBytes(int slot) const override {
    return slots_[static_cast<size_t>(slot)].held;
  }

 private:
  struct Slot {
    int64_t prompt_len = 0;
    int64_t held = 0;
    bool ended = false;
  };

  StopTexts(std::span<const std::string_view> texts, const PluginContext& context);
  // Looks at the end of the slot's answer.
  void Look(int slot);

  std::vector<std::string> texts_;
  std::vector<std::string_view> token_bytes_;  // [vocab_size], none for stop ids
  size_t longest_text_ = 0;
  std::vector<Slot> slots_;
  std::string end_;  // of the answer's text, during Look only
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_STOP_TEXTS_STOP_TEXTS_H_
