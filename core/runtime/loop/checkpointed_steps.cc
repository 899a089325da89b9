// GenerateLoop: checkpoints. Of each prompt one is made at its end, one where it may be gone on
// from without what asks for an answer, and one where it stops being like another text; one moves
// along with the answer.
#include <algorithm>
#include <limits>

#include "core/runtime/loop/generate_loop.h"

namespace ng {

void GenerateLoop::PlaceMarks(ActiveRequest& active) {
  active.checked = model_.Length(active.sequence);
  active.marked = checkpoints_ != nullptr && Shares(active.request());
  if (!active.marked) return;
  // The last token of the prompt has logits to give when the same prompt comes again.
  const std::span<const int32_t> prompt = Listed(active.ids(), active.adapters);
  const int64_t most = std::ssize(prompt) - 1;
  active.marks = {std::min(checkpoints_->Common(prompt), most), std::min(active.added.mark, most),
                  most};
  for (int64_t& mark : active.marks) mark = checkpoints_->PlaceBefore(mark);
  std::ranges::sort(active.marks);
}

int64_t GenerateLoop::TokensToMark(const ActiveRequest& active, int64_t begin) const {
  if (active.marked && checkpoints_->end_steps()) {
    for (const int64_t mark : active.marks) {
      if (mark > begin) return mark - begin;
    }
  }
  return std::numeric_limits<int64_t>::max();
}

bool GenerateLoop::WillHaveCheckpoint(const GenerateRequest& request) {
  const std::vector<int32_t>& prompt = request.prompt_ids;
  const int64_t reach = checkpoints_->Reach(Listed(prompt, SetOf(request.adapter)));
  return std::ranges::any_of(active_, [&](const std::unique_ptr<ActiveRequest>& active) {
    if (active->prefill_done || !active->marked) return false;
    if (active->request().adapter != request.adapter) return false;
    const std::vector<int32_t>& other = active->ids();
    const auto differ = std::mismatch(prompt.begin(), prompt.end() - 1, other.begin(), other.end());
    const int64_t n_common = differ.first - prompt.begin();
    return std::ranges::any_of(active->marks, [&](int64_t mark) {
      return mark > std::max(reach, active->checked) && mark <= n_common;
    });
  });
}

absl::Status GenerateLoop::MakeCheckpoints(ActiveRequest& active) {
  const int64_t length = model_.Length(active.sequence);
  const auto is_due = [&](int64_t place) {
    const bool reached = checkpoints_->end_steps() ? place == length : place <= length;
    return place > active.checked && reached;
  };
  const auto make = [&](int64_t place, Checkpoints::Number moved) {
    active.checked = place;
    const auto ids = std::span<const int32_t>(active.ids()).first(static_cast<size_t>(place));
    return checkpoints_->Make(active.sequence, Listed(ids, active.adapters), moved);
  };
  for (const int64_t mark : active.marks) {
    if (is_due(mark)) NG_RETURN_IF_ERROR(make(mark, Checkpoints::kNone).status());
  }
  const int64_t place = checkpoints_->PlaceBefore(length);
  if (!active.prefill_done || !is_due(place)) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(active.moving, make(place, active.moving));
  return absl::OkStatus();
}

}  // namespace ng
