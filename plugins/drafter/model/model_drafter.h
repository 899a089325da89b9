// Proposes what a smaller model with the same vocabulary takes for most likely.
//
// The smaller model runs in an engine of its own, with this engine's threads. It has a sequence for
// each slot. Tokens are fed to it when a draft is asked for, so that steps without drafts cost
// nothing; what it fed of an earlier draft and was kept, it does not feed again.
#ifndef NG_PLUGINS_DRAFTER_MODEL_MODEL_DRAFTER_H_
#define NG_PLUGINS_DRAFTER_MODEL_MODEL_DRAFTER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ng/drafter.h"
#include "ng/engine.h"

namespace ng {

class ModelDrafter final : public Drafter {
 public:
  // Options `path`, `weights` and `codec`. Opens the model, reads no weights. Errors: UsageError
  // without a path; ModelFileError for the model's files and where the vocabulary is another one.
  static absl::StatusOr<std::unique_ptr<Drafter>> Create(const PluginContext& context);

  absl::StatusOr<DrafterPlan> Plan(const DrafterSpec& spec) const override;
  absl::Status Load(const DrafterSpec& spec) override;
  absl::Status Open(int slot, const DraftedRequest& request) override;
  absl::Status Accept(int slot, int32_t token) override;
  absl::Status Close(int slot) override;
  absl::Status Propose(std::span<Draft> drafts) override;

 private:
  struct Slot {
    SequenceId sequence = 0;
    std::vector<int32_t> ids;  // of the sequence that is drafted for
    std::vector<int32_t> fed;  // what the model's own sequence holds
    int64_t n_agreed = 0;      // of these, the first ones that are `ids`
  };

  explicit ModelDrafter(std::string path) : path_(std::move(path)) {}
  absl::Status OpenEngine(const PluginContext& context);
  absl::Status CheckVocabulary(const PluginContext& context) const;
  RunNeeds NeedsOf(const DrafterSpec& spec) const;
  Slot& At(int slot) { return slots_[static_cast<size_t>(slot)]; }
  // Of a draft that is wanted, how many tokens the model has positions for.
  int64_t Fitting(const Draft& draft);
  // Takes back what was drafted and not kept, and feeds what is new, to all slots of drafting_.
  // Logits of the last token of each.
  absl::StatusOr<StepLogits> CatchUp(std::span<const Draft> drafts);
  absl::Status TakeBack(Slot& slot);
  // Adds the model's choice to each draft of drafting_; leaves there those that want more.
  void Choose(const StepLogits& step, std::span<Draft> drafts);

  const std::string path_;
  std::unique_ptr<Engine> engine_;
  int64_t max_tokens_ = 0;   // that a sequence of the model can have
  std::vector<Slot> slots_;  // [max_sequences]
  // Reused by every draft.
  std::vector<size_t> drafting_;                  // indexes of drafts
  std::vector<SequenceId> sequences_;             // of drafting_
  std::vector<int32_t> tokens_;                   // the newest of each
  std::vector<std::vector<int32_t>> new_tokens_;  // what each is fed; only grows
};

}  // namespace ng

#endif  // NG_PLUGINS_DRAFTER_MODEL_MODEL_DRAFTER_H_
