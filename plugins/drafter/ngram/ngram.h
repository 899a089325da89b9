// Proposes what followed the last tokens when they were there before, in the prompt or the answer.
// An answer that repeats its prompt (an edited text, code, quotations) is drafted for nothing.
#ifndef NG_PLUGINS_DRAFTER_NGRAM_NGRAM_H_
#define NG_PLUGINS_DRAFTER_NGRAM_NGRAM_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ng/drafter.h"
#include "plugins/drafter/ngram/suffix_index.h"

namespace ng {

class NgramDrafter final : public Drafter {
 public:
  // Options `min` and `max`. Errors: UsageError where min is more than max.
  static absl::StatusOr<std::unique_ptr<Drafter>> Create(const PluginContext& context);

  absl::StatusOr<DrafterPlan> Plan(const DrafterSpec& spec) const override;
  absl::Status Load(const DrafterSpec& spec) override;
  absl::Status Open(int slot, const DraftedRequest& request) override;
  absl::Status Accept(int slot, int32_t token) override;
  absl::Status Close(int slot) override;
  absl::Status Propose(std::span<Draft> drafts) override;

 private:
  NgramDrafter(int64_t min, int64_t max) : min_(min), max_(max) {}

  const int64_t min_;                 // tokens that must have been there before
  const int64_t max_;                 // and the most that are looked for
  std::vector<SuffixIndex> indexes_;  // [max_sequences], by slot
};

}  // namespace ng

#endif  // NG_PLUGINS_DRAFTER_NGRAM_NGRAM_H_
