#include "plugins/drafter/ngram/ngram.h"

#include <algorithm>
#include <limits>
#include <string>

namespace ng {

absl::StatusOr<std::unique_ptr<Drafter>> NgramDrafter::Create(const PluginContext& context) {
  const int64_t min = context.options.Int("min");
  const int64_t max = context.options.Int("max");
  if (min > max) {
    return UsageError("drafter.ngram.min = " + std::to_string(min) +
                      ", must be at most drafter.ngram.max = " + std::to_string(max));
  }
  return std::unique_ptr<Drafter>(new NgramDrafter(min, max));
}

absl::StatusOr<DrafterPlan> NgramDrafter::Plan(const DrafterSpec& spec) const {
  // Places are kept in 32 bits.
  if (spec.max_tokens > std::numeric_limits<int32_t>::max()) {
    return LimitError("a sequence of " + std::to_string(spec.max_tokens) +
                      " tokens, at most 2147483647 can be looked through");
  }
  return DrafterPlan{spec.max_sequences * SuffixIndex::Bytes(min_, max_, spec.max_tokens)};
}

absl::Status NgramDrafter::Load(const DrafterSpec& spec) {
  NG_RETURN_IF_ERROR(Plan(spec).status());
  indexes_.clear();
  indexes_.reserve(static_cast<size_t>(spec.max_sequences));
  for (int i = 0; i < spec.max_sequences; ++i) indexes_.emplace_back(min_, max_, spec.max_tokens);
  return absl::OkStatus();
}

absl::Status NgramDrafter::Open(int slot, const DraftedRequest& request) {
  SuffixIndex& index = indexes_[static_cast<size_t>(slot)];
  index.Clear();
  for (const int32_t token : request.prompt_ids) index.Add(token);
  return absl::OkStatus();
}

absl::Status NgramDrafter::Accept(int slot, int32_t token) {
  indexes_[static_cast<size_t>(slot)].Add(token);
  return absl::OkStatus();
}

absl::Status NgramDrafter::Close(int /*slot*/) { return absl::OkStatus(); }

absl::Status NgramDrafter::Propose(std::span<Draft> drafts) {
  for (Draft& draft : drafts) {
    const SuffixIndex& index = indexes_[static_cast<size_t>(draft.slot)];
    const int64_t begin = index.FindContinuation();
    if (begin < 0) continue;
    // A text that repeats itself goes on so: behind its end comes what is drafted.
    const std::span<const int32_t> known = index.tokens().subspan(static_cast<size_t>(begin));
    for (size_t i = 0; i < draft.tokens.size(); ++i) {
      draft.tokens[i] = i < known.size() ? known[i] : draft.tokens[i - known.size()];
    }
    draft.n_tokens = std::ssize(draft.tokens);
  }
  return absl::OkStatus();
}

}  // namespace ng
