// A cache that holds no more than a budget of tokens of each sequence. When the length comes to a
// multiple of `every` positions and more are held, a policy (ng/policy.h) gives each of them a
// score, and the tokens of the lowest scores leave. What stays keeps its position, its bits and its
// order.
//
// Or they leave once: where the context of a text ends, its mark, which the engine tells. Until
// then all are held.
//
// A sequence owns one page of budget + every slots, or of all its tokens, in layout "tiles16", in
// which each kv head holds tokens of its own (KvView::gone). Which ones comes of positions, keys
// and values alone, so every way of splitting a text into steps has the same bits. Nobody goes back
// behind a place where tokens have left: Truncate then is an UnsupportedError.
#ifndef NG_PLUGINS_CACHE_BUDGET_BUDGET_STORE_H_
#define NG_PLUGINS_CACHE_BUDGET_BUDGET_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/cache_capabilities.h"
#include "ng/policy.h"
#include "ng/tile_store.h"
#include "plugins/cache/budget/attended_sums.h"
#include "plugins/cache/budget/budget_options.h"
#include "plugins/cache/budget/query_sums.h"

namespace ng {

// As CacheFactory. Errors: UsageError for options (ReadBudgetOptions); PluginError for a policy
// that there is not, or that needs what this store does not give, and as MakePageShape.
absl::StatusOr<CachePlan> PlanBudgetStore(const PluginContext& context, const CacheSpec& spec);
absl::StatusOr<std::unique_ptr<CacheStore>> CreateBudgetStore(const PluginContext& context,
                                                              const CacheSpec& spec);

// Where everything lies in the store's memory, in bytes.
struct BudgetShape {
  PageShape pages;  // of the layer that holds most, but its page is of all layers; plan: of the
                    // whole store
  // Of each layer, with the offsets from the page's start.
  struct Layer {
    KvSide k;
    KvSide v;
    int64_t page_tokens = 0;
  };
  std::vector<Layer> layers;  // [n_layers]
  int64_t slots = 0;          // of the layer that holds most
  int64_t kept = 0;           // the most tokens that stay in a layer when others leave
  int64_t positions = 0;      // int32 [max_sequences, n_layers, n_kv_heads, kept]
  int64_t chosen = 0;         // int32, alike: the slots that a Commit is about to keep
  // For layers that are scored at the same time, each with a lane of its own:
  int64_t lanes = 1;
  int64_t held = 0;        // int32 [lanes, slots], the positions in a head's slots
  int64_t order = 0;       // int32 [lanes, slots], for KeepBest
  int64_t scores = 0;      // float [lanes, n_kv_heads, slots]
  int64_t keys = 0;        // float [lanes, slots, head_dim], where the policy needs them
  int64_t values = 0;      // float [lanes, slots, value_dim], alike
  int64_t masses = 0;      // float [lanes, slots], alike: the attention that a head's tokens got
  int64_t statistics = 0;  // double [lanes, QuerySums::StatisticsSize()], alike
  bool has_keys = false;
  bool has_values = false;
  bool has_attended = false;
  bool has_queries = false;
  AttendedShape attended;  // where the policy needs it
  QueryShape queries;      // alike
};
absl::StatusOr<BudgetShape> ShapeOfBudget(const CacheSpec& spec, const BudgetOptions& options,
                                          const Policy& policy);

class BudgetStore final : public TileStore,
                          public Statistics,
                          public AttendedMass,
                          public PlainQueries,
                          public ContextMark {
 public:
  // memory: [shape.pages.plan.bytes], 64-byte aligned, zero.
  BudgetStore(const PluginContext& context, const CacheSpec& spec, const BudgetOptions& options,
              const BudgetShape& shape, std::shared_ptr<std::byte> memory,
              std::unique_ptr<Policy> policy);

  CachePlan plan() const override { return shape_.pages.plan; }
  absl::StatusOr<SequenceId> Open(int64_t capacity) override;
  void Close(SequenceId sequence) override;
  int64_t Length(SequenceId sequence) const override { return At(sequence).length; }
  int64_t Capacity(SequenceId sequence) const override { return At(sequence).capacity; }
  absl::Status Truncate(SequenceId sequence, int64_t length) override;
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, int64_t capacity) override;
  absl::Status Commit(std::span<const SequenceRows> rows) override;
  KvView View(int layer, SequenceId sequence, int64_t length) const override;
  std::string Report() const override;
  void* Capability(std::string_view name) override;
  absl::StatusOr<std::vector<Statistic>> Values() const override;
  int64_t MassTokens(const SequenceRows& rows) const override { return attended_->Wanted(rows); }
  absl::Status Attended(int layer, const SequenceRows& rows,
                        const TensorView<const float, 3>& mass) override {
    return attended_->Add(layer, rows, mass);
  }
  void SetRotation(int layer, const Rotation& rotation, double scale) override;
  absl::Status Queries(int layer, std::span<const SequenceRows> rows,
                       const TensorView<const float, 3>& q) override;
  absl::Status SetMark(SequenceId sequence, int64_t length) override;
  int64_t Mark(SequenceId sequence) const override { return At(sequence).mark; }

 private:
  struct Slot {
    bool open = false;
    int64_t length = 0;
    int64_t capacity = 0;
    int64_t left_at = 0;  // tokens that there were when some have left the last time; 0: none has
    int64_t mark = 0;     // 0: it has not been told
  };
  // Of one layer of a sequence.
  struct Held {
    int64_t gone = 0;  // tokens that have left
    int64_t kept = 0;  // tokens that were left then
  };

  // How a layer rotates queries and keys.
  struct LayerRotation {
    std::vector<double> angles;
    Rotation rotation;  // of these angles
    double scale = 0.0;
  };

  // Calls it with attended_ and with queries_, those that there are.
  template <class Call>
  void ForSums(Call call) const {
    if (attended_ != nullptr) call(*attended_);
    if (queries_ != nullptr) call(*queries_);
  }
  absl::Status MakeRoom(const SequenceRows& rows) override;
  // Whether tokens leave behind these rows, and in which layer.
  bool Evicts(const SequenceRows& rows) const;
  bool EvictsIn(int layer, const SequenceRows& rows) const;
  // Tokens that stay in a layer then, of all that there have been.
  int64_t KeptIn(int layer, int64_t length) const {
    return options_.KeptIn(length, layers_[static_cast<size_t>(layer)], n_run_layers_);
  }
  // Chooses what a sequence keeps, in all layers; nothing has changed yet.
  absl::Status Choose(const SequenceRows& rows);
  // The same in one layer. [worker]
  absl::Status ChooseInLayer(const SequenceRows& rows, const KvView& view, int64_t lane);
  // The scores of one kv head. [worker]
  absl::Status Score(const SequenceRows& rows, const KvView& view, int kv_head, int64_t lane);
  // [slots] of one kv head of the lane's layer.
  std::span<float> ScoresOf(int64_t lane, int kv_head) const {
    return Part<float>(shape_.scores, lane * n_kv_heads_ + kv_head, shape_.slots);
  }
  // Lets go what has not been chosen.
  absl::Status Evict(const SequenceRows& rows);

  template <class T>
  std::span<T> Part(int64_t offset, int64_t index, int64_t n) const {
    return {reinterpret_cast<T*>(memory_.get() + offset) + index * n, static_cast<size_t>(n)};
  }
  // [n] of one kv head, at the offset of `positions` or `chosen`.
  std::span<int32_t> OfHead(int64_t offset, SequenceId sequence, int layer, int kv_head,
                            int64_t n) const {
    const int64_t at =
        (int64_t{sequence} * n_layers_ + layer) * n_kv_heads_ * shape_.kept + kv_head * n;
    return {reinterpret_cast<int32_t*>(memory_.get() + offset) + at, static_cast<size_t>(n)};
  }
  Held& HeldIn(SequenceId sequence, int layer) {
    return held_[static_cast<size_t>(int64_t{sequence} * n_layers_ + layer)];
  }
  const Held& HeldIn(SequenceId sequence, int layer) const {
    return held_[static_cast<size_t>(int64_t{sequence} * n_layers_ + layer)];
  }
  Slot& At(SequenceId sequence) { return slots_[static_cast<size_t>(sequence)]; }
  const Slot& At(SequenceId sequence) const { return slots_[static_cast<size_t>(sequence)]; }

  Executor& executor_;
  const BudgetOptions options_;
  const BudgetShape shape_;
  const int head_dim_;
  const int value_dim_;
  const std::vector<int> layers_;  // [n_layers], as the run numbers them
  const int n_run_layers_;
  const std::shared_ptr<std::byte> memory_;
  const std::unique_ptr<Policy> policy_;
  std::unique_ptr<AttendedSums> attended_;  // null: the policy does not need it
  std::unique_ptr<QuerySums> queries_;      // alike
  std::vector<LayerRotation> rotations_;    // [n_layers]
  std::vector<const std::byte*> pages_;     // [max_sequences]
  std::vector<Slot> slots_;                 // [max_sequences]
  std::vector<Held> held_;                  // [max_sequences, n_layers]
  std::vector<absl::Status> chosen_;        // [lanes]
  int64_t n_evictions_ = 0;
  int64_t n_gone_ = 0;  // in all layers together
  double seconds_ = 0.0;
};

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_BUDGET_BUDGET_STORE_H_
