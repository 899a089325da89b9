// CacheGroups: the stores of an engine as one. Layers that ask the same of a cache are a group, and
// each group has a store of its own, made by the same plugin; most models have one group. So a
// store is of layers of one kind, whatever the model, and a group with a sliding window may hold no
// more than the window.
//
// A sequence has the id that the first group's store gave it. All groups have the same lengths.
//
// What groups that hold windows have of a sequence can be kept, as forks of their own, and a later
// sequence opened with it and with the pages that the other groups share: a window has moved on
// when the text behind it is asked for again.
#ifndef NG_CORE_PLUGIN_CACHE_GROUPS_H_
#define NG_CORE_PLUGIN_CACHE_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/plugin/guarded_cache.h"
#include "ng/cache_capabilities.h"
#include "ng/cache_store.h"
#include "ng/status.h"

namespace ng {

// The layers of a group, rising, as the engine numbers them, and what their store must hold.
struct CacheGroupSpec {
  std::vector<int> layers;
  CacheSpec spec;  // n_layers: as many as `layers`
};

// What the stores of all groups do together: image_tile_bytes are those of the largest image.
// REQUIRES: one plan at least, all of one plugin.
CachePlan CombinedPlan(std::span<const CachePlan> plans);

class CacheGroups final : public CacheStore,
                          public PrefixSharing,
                          public Snapshots,
                          public Statistics,
                          public AttendedMass,
                          public PlainQueries,
                          public ContextMark,
                          public KeepRules,
                          public SequenceImages {
 public:
  struct Group {
    CacheGroupSpec of;
    std::unique_ptr<GuardedCache> store;
  };
  // REQUIRES: one group at least; every layer of [0, number of layers) is in one of them, and all
  // that hold no windows have as many sequences.
  explicit CacheGroups(std::vector<Group> groups);

  // What a Close of any group has thrown; OK: nothing.
  absl::Status fault() const;

  // image_tile_bytes: of the layer whose image is the largest.
  CachePlan plan() const override { return plan_; }
  int n_layers() const { return static_cast<int>(places_.size()); }
  int n_groups() const { return static_cast<int>(groups_.size()); }
  int64_t image_tile_bytes(int layer) const {
    return StoreOf(PlaceOf(layer)).plan().image_tile_bytes;
  }
  absl::StatusOr<SequenceId> Open(int64_t capacity) override;
  void Close(SequenceId sequence) override;
  int64_t Length(SequenceId sequence) const override;
  int64_t Capacity(SequenceId sequence) const override;
  // An approximate store may refuse where another group's has not: the sequence is then emptied.
  absl::Status Truncate(SequenceId sequence, int64_t length) override;
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity) override;
  absl::Status Append(int layer, std::span<const SequenceRows> rows,
                      const TensorView<const float, 3>& k,
                      const TensorView<const float, 3>& v) override;
  absl::Status Commit(std::span<const SequenceRows> rows) override;
  // With the layer and the sequence as the group's store has them.
  KvView View(int layer, SequenceId sequence, int64_t length) const override;
  void CopyRow(KvPart part, const KvView& view, int64_t token, int kv_head,
               float* out) const override;
  std::string Report() const override;
  void* Capability(std::string_view name) override;

  // The forks that keep a sequence's windows, one for each group that holds windows; may be empty.
  using Windows = std::vector<SequenceId>;
  // Keeps those behind the first `length` tokens of a sequence in `windows`, which had none.
  // Errors: as Fork and Truncate; then nothing is kept.
  absl::Status KeepWindows(SequenceId sequence, int64_t length, Windows* windows);
  void DropWindows(Windows* windows);
  // Opens a sequence with these windows and with as many tokens of the other groups, which share
  // them: all of the prompt but its last. Errors: as Open; UnsupportedError where the other groups
  // have them no longer.
  absl::StatusOr<SequenceId> OpenFrom(const Windows& windows, std::span<const int32_t> prompt,
                                      int64_t capacity);

  // The tokens that every group has.
  absl::StatusOr<SequenceId> OpenFor(std::span<const int32_t> prompt, int64_t capacity) override;
  // An image has the size of its layer's, image_tile_bytes(layer) a tile.
  absl::Status ExportLayer(int layer, SequenceId sequence,
                           std::span<std::byte> image) const override;
  absl::Status ImportLayer(int layer, const SequenceRows& rows,
                           std::span<const std::byte> image) override;
  // Of tokens those of the first group; all else is of all groups together.
  absl::StatusOr<std::vector<Statistic>> Values() const override;
  int64_t MassTokens(const SequenceRows& rows) const override;
  absl::Status Attended(int layer, const SequenceRows& rows,
                        const TensorView<const float, 3>& mass) override;
  void SetRotation(int layer, const Rotation& rotation, double scale) override;
  absl::Status Queries(int layer, std::span<const SequenceRows> rows,
                       const TensorView<const float, 3>& q) override;
  absl::Status SetMark(SequenceId sequence, int64_t length) override;
  int64_t Mark(SequenceId sequence) const override;
  // The groups' stores are of one plugin and its options, so all have the same.
  std::span<const std::string> Rules() const override { return groups_.front().store->Rules(); }
  absl::Status SetRule(SequenceId sequence, int rule) override;
  // Those of all groups, one behind the other, each behind its size.
  int64_t ImageBytes(SequenceId sequence) const override;
  absl::Status ExportImage(SequenceId sequence, std::span<std::byte> image) const override;
  absl::Status ImportImage(SequenceId sequence, int64_t length,
                           std::span<const std::byte> image) override;

 private:
  // Where a layer is.
  struct Place {
    size_t group = 0;
    int layer = 0;
  };

  const Place& PlaceOf(int layer) const { return places_[static_cast<size_t>(layer)]; }
  GuardedCache& StoreOf(const Place& place) const { return *groups_[place.group].store; }
  SequenceId IdIn(size_t group, SequenceId sequence) const;
  // The same rows with the ids of a group. Valid until the next call.
  std::span<const SequenceRows> RowsIn(size_t group, std::span<const SequenceRows> rows) const;
  // Opens a sequence in every group by a call for each; none is left open after an error.
  using OpenIn = absl::FunctionRef<absl::StatusOr<SequenceId>(size_t group)>;
  absl::StatusOr<SequenceId> OpenAll(OpenIn open_in);

  const std::vector<Group> groups_;
  std::vector<Place> places_;                 // [n_layers]
  std::vector<std::vector<SequenceId>> ids_;  // [groups][max_sequences]: the id in each
  mutable std::vector<SequenceRows> rows_;    // that RowsIn gave last
  CachePlan plan_;
};

}  // namespace ng

#endif  // NG_CORE_PLUGIN_CACHE_GROUPS_H_
