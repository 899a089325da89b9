// What run.check_plugins asks of a store after every call: lengths that nobody moved are the same,
// views cover what they should, and rows read back as they were written, however others were
// appended, forked, truncated and closed meanwhile.
//
// Rows are spot checks by CopyRow: of each sequence the first token and the last, of the first and
// the last kv head, in every layer. An approximate store's rows are not looked at. Used by
// GuardedCache; calls into the plugin without a safety catch, which is its caller's.
#ifndef NG_CORE_PLUGIN_CACHE_CHECKS_H_
#define NG_CORE_PLUGIN_CACHE_CHECKS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ng/cache_store.h"
#include "ng/status.h"

namespace ng {

// A sequence as the host has counted it.
struct CachedSequence {
  bool open = false;
  int64_t length = 0;
  int64_t capacity = 0;
};

// All errors are PluginErrors: what was found, and what it must be.
class CacheChecks {
 public:
  // `sequences` is the host's count, [max_sequences]; borrowed, as the store is.
  CacheChecks(const CacheStore& store, const CachePlan& plan, const CacheSpec& spec,
              std::span<const CachedSequence> sequences);

  // After a sequence was opened, or truncated.
  absl::Status Begun(SequenceId sequence);
  absl::Status Forked(SequenceId from, SequenceId to);
  absl::Status Closed(SequenceId sequence);
  // k: [n_rows, n_kv_heads, head_dim], v: [n_rows, n_kv_heads, value_dim]; null where rows came as
  // an image.
  absl::Status Appended(int layer, std::span<const SequenceRows> rows,
                        const TensorView<const float, 3>* k, const TensorView<const float, 3>* v);
  absl::Status Committed(std::span<const SequenceRows> rows);
  // A view that the store has just given.
  absl::Status View(const KvView& view, int layer, SequenceId sequence, int64_t length) const;

 private:
  // A token's spots in every layer: [n_layers][K, V][heads looked at][their width]; empty: none.
  using Spots = std::vector<float>;
  struct Seen {
    Spots first = {};
    Spots last = {};
    // Of a step that is not committed: the sequence's first token, where it is there, and its last.
    Spots next_first = {};
    Spots next_last = {};
  };

  bool looks_at_rows() const { return !plan_.approximate; }
  int64_t layer_floats() const;
  // Reads one token's spots in a layer of a sequence with `length` tokens, into their place there.
  absl::Status Read(int layer, SequenceId sequence, int64_t token, int64_t length,
                    Spots* spots) const;
  // Empty where the token is not held.
  absl::StatusOr<Spots> ReadAll(SequenceId sequence, int64_t token) const;
  // That a token reads as `wanted` does, in those of layers [begin, end) that hold it.
  absl::Status Same(SequenceId sequence, int64_t token, const Spots& wanted, int begin,
                    int end) const;
  // Every length is as the host counts it, and no spot has changed in layers [begin, end).
  absl::Status Unchanged(int begin, int end) const;
  absl::Status Unchanged() const { return Unchanged(0, spec_.n_layers); }
  // That row i of a step reads as it was given, where the store keeps it in f32.
  absl::Status Exact(int layer, const SequenceRows& rows, int64_t i,
                     const TensorView<const float, 3>& k,
                     const TensorView<const float, 3>& v) const;
  // Which tokens have left.
  absl::Status Slots(const KvView& view) const;
  absl::Status Slots(const KvView& view, int head) const;
  // Where they must be.
  absl::Status Pages(const KvView& view) const;
  absl::Status Tiles(const KvView& view, const KvSide& side, bool keys) const;

  Seen& At(SequenceId id) { return seen_[static_cast<size_t>(id)]; }

  const CacheStore& store_;
  const CachePlan plan_;
  const CacheSpec spec_;  // without its layouts
  const std::span<const CachedSequence> sequences_;
  std::vector<Seen> seen_;  // [max_sequences]
};

}  // namespace ng

#endif  // NG_CORE_PLUGIN_CACHE_CHECKS_H_
