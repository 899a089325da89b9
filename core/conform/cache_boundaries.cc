// Stores that let tokens go: what leaves, and that nobody goes back to before it.
#include <algorithm>
#include <cstdint>

#include "core/conform/cache_rig.h"
#include "core/conform/texts.h"
#include "ng/status.h"

namespace ng::conform {
namespace {

// The tokens that each kv head of each layer holds.
std::vector<int64_t> HeldBy(const CacheFeeder& feeder, const CacheSpec& spec) {
  std::vector<int64_t> held;
  for (int layer = 0; layer < spec.n_layers; ++layer) {
    const KvView view = feeder.View(layer);
    for (int head = 0; head < spec.n_kv_heads; ++head) {
      for (int64_t slot = 0; slot < view.n_slots(head); ++slot) {
        held.push_back(view.TokenAt(head, slot));
      }
    }
  }
  return held;
}

// The same rows in one piece and in pieces of `n_tokens`, in one store.
std::string FindWrongInPieces(const CacheSubject& subject, const CacheSpec& spec,
                              int64_t n_tokens) {
  const absl::StatusOr<MadeStore> made = MakeStore(subject, spec);
  if (!made.ok()) return Text(made.status());
  const int64_t width = int64_t{spec.n_kv_heads} * spec.head_dim;
  std::vector<float> rows;
  for (int64_t i = 0; i < spec.max_tokens * width; ++i) {
    rows.push_back(static_cast<float>((i * 7919 + 13 * (i / width)) % 211) * 0.01F - 1.0F);
  }
  CacheFeeder whole(*made->store, spec);
  CacheFeeder pieces(*made->store, spec);
  const int64_t mark = spec.max_tokens / 3 * 2 + 1;  // where the store asks for it
  absl::Status status = whole.Open(spec.max_tokens, mark);
  if (status.ok()) status = pieces.Open(spec.max_tokens, mark);
  if (status.ok()) status = whole.Append(rows);
  for (int64_t at = 0; at < spec.max_tokens && status.ok(); at += n_tokens) {
    const auto begin = rows.begin() + at * width;
    const int64_t n = std::min(n_tokens, spec.max_tokens - at);
    status = pieces.Append({begin, begin + n * width});
  }
  if (!status.ok()) return Text(status);
  if (HeldBy(whole, spec) != HeldBy(pieces, spec)) {
    return "other tokens are held when the rows come in pieces of " + std::to_string(n_tokens);
  }
  const KvView view = whole.View(0);
  const HeadSlots first = view.SlotsOf(0);
  if (first.gone == 0) return "";
  const absl::Status back = made->store->Truncate(whole.id(), first.n_kept + first.gone - 1);
  if (!IsUnsupported(back)) return "goes back to where others were held: " + Text(back);
  auto* const marks = CapabilityOf<ContextMark>(*made->store);
  if (marks == nullptr) return "";
  if (marks->Mark(whole.id()) != mark) return "the mark is not the one that was set";
  const absl::Status moved = marks->SetMark(whole.id(), spec.max_tokens + 1);
  if (!IsUnsupported(moved)) return "takes another mark behind its own: " + Text(moved);
  return "";
}

}  // namespace

Outcome CheckCacheBoundaries(const CacheSubject& subject) {
  const absl::StatusOr<MadeStore> made = MakeStore(subject, CacheShapes().front());
  if (made.ok() && made->store->plan().slots == 0) return Skip("no token leaves it");
  for (const CacheSpec& spec : CacheShapes()) {
    for (const int64_t n_tokens : {1, 3, 17}) {
      const std::string wrong = FindWrongInPieces(subject, spec, n_tokens);
      if (!wrong.empty()) return Fail(Describe(spec) + ": " + wrong);
    }
  }
  return Ok();
}

}  // namespace ng::conform
