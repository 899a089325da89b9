// What the checks of stores have in common: the shapes, a store with its threads, and a sequence
// that rows are appended to.
#ifndef NG_CORE_CONFORM_CACHE_RIG_H_
#define NG_CORE_CONFORM_CACHE_RIG_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "ng/cache_capabilities.h"
#include "ng/conform/cache.h"
#include "ng/conform/executor.h"

namespace ng::conform {

std::string Describe(const CacheSpec& spec);

// Of f32.
std::vector<CacheSpec> CacheShapes();

// A store, and the threads that it works on.
struct MadeStore {
  std::unique_ptr<UnevenExecutor> executor;
  std::unique_ptr<CacheStore> store;
};
absl::StatusOr<MadeStore> MakeStore(const CacheSubject& subject, const CacheSpec& spec,
                                    int threads = 2);

// Tells a store of attention that nobody computed: shares that come of layer, kv head, query and
// token alone. shares: memory to make them in.
absl::Status TellMadeUpMass(CacheStore& store, int layer, const SequenceRows& rows,
                            int64_t n_kv_heads, std::vector<float>* shares);

// The same of queries, which come of layer, query head and position alone.
absl::Status TellMadeUpQueries(PlainQueries& queries, int layer, const SequenceRows& rows,
                               const CacheSpec& spec, std::vector<float>* made);

// One sequence that rows are appended to, the same ones in every layer.
class CacheFeeder {
 public:
  CacheFeeder(CacheStore& store, const CacheSpec& spec)
      : store_(store),
        spec_(spec),
        plan_(store.plan()),
        attended_(CapabilityOf<AttendedMass>(store)),
        queries_(CapabilityOf<PlainQueries>(store)) {}

  // mark: of a store that asks for it; 0: none.
  absl::Status Open(int64_t capacity, int64_t mark = 0) {
    NG_ASSIGN_OR_RETURN(id_, store_.Open(capacity));
    mark_ = mark;
    made_.reserve(static_cast<size_t>(int64_t{spec_.n_heads} * spec_.head_dim));
    shares_.reserve(static_cast<size_t>(capacity * spec_.n_kv_heads));  // of a step of one token
    auto* const marks = CapabilityOf<ContextMark>(store_);
    return marks == nullptr || mark == 0 ? absl::OkStatus() : marks->SetMark(id_, mark);
  }
  // rows: [n, n_kv_heads, head_dim]
  absl::Status Append(const std::vector<float>& rows) {
    const int64_t width = int64_t{spec_.n_kv_heads} * spec_.head_dim;
    const int64_t n_all = std::ssize(rows) / width;
    for (int64_t done = 0; done < n_all;) {
      const int64_t n = std::min(n_all - done, plan_.ToBoundary(length_, mark_));
      NG_RETURN_IF_ERROR(AppendStep(rows.data() + done * width, n));
      done += n;
    }
    return absl::OkStatus();
  }
  KvView View(int layer) const { return store_.View(layer, id_, length_); }
  SequenceId id() const { return id_; }
  int64_t length() const { return length_; }

 private:
  // rows: [n, n_kv_heads, head_dim], none beyond the next boundary
  absl::Status AppendStep(const float* rows, int64_t n) {
    SequenceRows entry{.sequence = id_, .start_pos = length_, .n_tokens = n};
    if (attended_ != nullptr) entry.mass_tokens = attended_->MassTokens(entry);
    const TensorView<const float, 3> view(rows, {n, spec_.n_kv_heads, spec_.head_dim});
    for (int layer = 0; layer < spec_.n_layers; ++layer) {
      if (queries_ != nullptr) {
        NG_RETURN_IF_ERROR(TellMadeUpQueries(*queries_, layer, entry, spec_, &made_));
      }
      NG_RETURN_IF_ERROR(store_.Append(layer, {&entry, 1}, view, view));
      if (entry.mass_tokens == 0) continue;
      NG_RETURN_IF_ERROR(TellMadeUpMass(store_, layer, entry, spec_.n_kv_heads, &shares_));
    }
    length_ += n;
    return store_.Commit({&entry, 1});
  }

  CacheStore& store_;
  const CacheSpec spec_;
  const CachePlan plan_;
  AttendedMass* const attended_;  // null where the store does not ask
  PlainQueries* const queries_;   // alike
  SequenceId id_ = 0;
  int64_t length_ = 0;
  int64_t mark_ = 0;
  std::vector<float> shares_;
  std::vector<float> made_;
};

// That what leaves a store does not depend on how the rows came, and that there is no way back.
Outcome CheckCacheBoundaries(const CacheSubject& subject);

}  // namespace ng::conform

#endif  // NG_CORE_CONFORM_CACHE_RIG_H_
