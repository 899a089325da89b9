#include "core/runtime/groups/ordered_results.h"

#include <utility>

namespace ng {

absl::Status OrderedResults::OnStep(size_t index, const StepRecord& record) {
  if (!options_.on_step) return absl::OkStatus();
  if (index == next_) return options_.on_step(static_cast<int>(index), record);
  entries_[index].steps.push_back(record);
  return absl::OkStatus();
}

absl::Status OrderedResults::OnDone(size_t index, Completion completion) {
  entries_[index].completion = std::move(completion);
  entries_[index].done = true;
  ++n_done_;
  while (next_ < entries_.size() && entries_[next_].done) {
    const int ended = static_cast<int>(next_);
    const Completion& complete = entries_[next_].completion;
    // Of the next one as much as there is. An error does not keep the others from their end.
    ++next_;
    absl::Status status = options_.on_done ? options_.on_done(ended, complete) : absl::OkStatus();
    if (next_ < entries_.size()) {
      const std::vector<StepRecord> steps = std::exchange(entries_[next_].steps, {});
      for (const StepRecord& step : steps) {
        if (status.ok()) status = options_.on_step(static_cast<int>(next_), step);
      }
    }
    NG_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

std::vector<Completion> OrderedResults::TakeCompletions() {
  std::vector<Completion> completions;
  completions.reserve(entries_.size());
  for (Entry& entry : entries_) completions.push_back(std::move(entry.completion));
  return completions;
}

}  // namespace ng
