#include "core/runtime/loop/checkpoints.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/checked.h"

namespace ng {
namespace {

int64_t CountAlike(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t n = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + static_cast<int64_t>(n), b.begin()).first - a.begin();
}

}  // namespace

Checkpoints::Checkpoints(CacheGroups& cache, StateStore& states, int most, int64_t max_tokens)
    : cache_(cache),
      states_(states),
      page_tokens_(cache.plan().share_tokens),
      unused_(static_cast<size_t>(most)) {
  // So that a step that decodes allocates nothing.
  for (Checkpoint& checkpoint : unused_) {
    checkpoint.ids.reserve(static_cast<size_t>(max_tokens));
    checkpoint.windows.reserve(static_cast<size_t>(cache_.n_groups()));
  }
}

int64_t Checkpoints::Bytes(int most, int64_t max_tokens) {
  return SaturatingMul(SaturatingMul(max_tokens, int64_t{sizeof(int32_t)}), most);
}

Checkpoints::Used::iterator Checkpoints::Find(std::span<const int32_t> prompt) {
  auto longest = used_.end();
  for (auto one = used_.begin(); one != used_.end(); ++one) {
    const size_t n = one->ids.size();
    if (n >= prompt.size() || (longest != used_.end() && n <= longest->ids.size())) continue;
    if (CountAlike(one->ids, prompt) == std::ssize(one->ids)) longest = one;
  }
  return longest;
}

int64_t Checkpoints::Reach(std::span<const int32_t> prompt) const {
  int64_t reach = 0;
  for (const Checkpoint& one : used_) {
    const int64_t n = std::ssize(one.ids);
    if (n < std::ssize(prompt) && CountAlike(one.ids, prompt) == n) reach = std::max(reach, n);
  }
  return reach;
}

int64_t Checkpoints::Common(std::span<const int32_t> prompt) const {
  int64_t common = 0;
  for (const Checkpoint& one : used_) common = std::max(common, CountAlike(one.ids, prompt));
  return PlaceBefore(common);
}

absl::StatusOr<SequenceId> Checkpoints::OpenFrom(const Checkpoint& from,
                                                 std::span<const int32_t> prompt,
                                                 int64_t capacity) {
  NG_ASSIGN_OR_RETURN(const SequenceId sequence,
                      cache_.OpenFrom(from.windows, prompt.first(from.ids.size() + 1), capacity));
  if (!states_.empty()) states_.GoOnFrom(from.state, sequence);
  return sequence;
}

absl::StatusOr<SequenceId> Checkpoints::OpenWithout(std::span<const int32_t> prompt,
                                                    int64_t capacity) {
  // Pages of windows that nobody has needed yet are shared, too.
  const bool shares = states_.empty() && !prompt.empty();
  NG_ASSIGN_OR_RETURN(const SequenceId sequence,
                      shares ? cache_.OpenFor(prompt, capacity) : cache_.Open(capacity));
  states_.Clear(sequence);
  return sequence;
}

absl::StatusOr<SequenceId> Checkpoints::Open(std::span<const int32_t> prompt, int64_t capacity) {
  for (;;) {
    const auto from = Find(prompt);
    const bool found = from != used_.end();
    absl::StatusOr<SequenceId> opened =
        found ? OpenFrom(*from, prompt, capacity) : OpenWithout(prompt, capacity);
    if (opened.ok()) {
      if (found) used_.splice(used_.begin(), used_, from);
      return opened;
    }
    if (found && IsUnsupported(opened.status())) {  // its pages are gone
      Drop(from);
    } else if (!absl::IsResourceExhausted(opened.status()) || used_.empty()) {
      return opened;
    } else if (!DropLast(from)) {
      Drop(from);
    }
  }
}

absl::StatusOr<Checkpoints::Number> Checkpoints::Make(SequenceId sequence,
                                                      std::span<const int32_t> ids, Number moved) {
  // What is already there need not be there twice.
  const auto same = std::ranges::find_if(
      used_, [&](const Checkpoint& one) { return std::ranges::equal(one.ids, ids); });
  if (same != used_.end()) {
    used_.splice(used_.begin(), used_, same);
    return kNone;
  }
  const auto before = std::ranges::find(used_, moved, &Checkpoint::number);
  if (moved != kNone && before != used_.end()) Drop(before);
  if (unused_.empty()) DropLast(used_.end());
  Checkpoint& made = unused_.front();
  absl::Status kept = cache_.KeepWindows(sequence, std::ssize(ids), &made.windows);
  while (absl::IsResourceExhausted(kept) && DropLast(used_.end())) {
    kept = cache_.KeepWindows(sequence, std::ssize(ids), &made.windows);
  }
  if (absl::IsResourceExhausted(kept)) return kNone;
  NG_RETURN_IF_ERROR(kept);
  if (!states_.empty()) made.state = states_.Keep(sequence);
  made.ids.assign(ids.begin(), ids.end());
  made.number = ++last_number_;
  used_.splice(used_.begin(), unused_, unused_.begin());
  return made.number;
}

bool Checkpoints::DropLast(Used::iterator spared) {
  for (auto last = used_.end(); last != used_.begin();) {
    if (--last == spared) continue;
    Drop(last);
    return true;
  }
  return false;
}

void Checkpoints::Drop(Used::iterator dropped) {
  cache_.DropWindows(&dropped->windows);
  if (!states_.empty()) states_.Drop(dropped->state);
  unused_.splice(unused_.end(), used_, dropped);
}

}  // namespace ng
