// A cache that holds no more than a budget of tokens of each sequence. When the length comes to a
// multiple of `every` positions and more are held, a policy (ng/policy.h) gives each of them a
// score, and the tokens of the lowest scores leave. What stays keeps its position, its bits and its
// order.
//
// Or they leave once: where the context of a text ends, its mark, which the engine tells. Until
// then all are held.
//
// A sequence owns one page of budget + every slots, or of all its tokens, in layout "tiles16", in
// which each kv head holds tokens of its own (KvView::gone), as many as another one or, with heads
// = adaptive, as many on the average (KvView::heads). Which ones comes of positions, keys and
// values alone, so every way of splitting a text into steps has the same bits. Nobody goes back
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
#include "plugins/cache/budget/layer_states.h"
#include "plugins/cache/budget/query_sums.h"
#include "plugins/cache/budget/sequence_image.h"

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
    int64_t head_tiles = 0;  // where `adaptive`: of each head, as long as all hold as many
  };
  std::vector<Layer> layers;  // [n_layers]
  bool adaptive = false;      // heads may hold different numbers
  int64_t slots = 0;          // of the layer that holds most, on the average of its heads
  int64_t head_slots = 0;     // the most of any head
  int64_t layer_slots = 0;    // where `adaptive`: of all heads of a layer, the most, whole tiles
  int64_t kept = 0;           // the most tokens that stay in a layer when others leave
  int64_t positions = 0;      // int32 [max_sequences, n_layers, n_kv_heads, kept]
  int64_t chosen = 0;         // int32, alike: the slots that a Commit is about to keep
  // For layers that are scored at the same time, each with a lane of its own:
  int64_t lanes = 1;
  int64_t held = 0;        // int32 [lanes, head_slots], the positions in a head's slots
  int64_t n_ordered = 0;   // of a head, or where `adaptive` of all heads of a layer
  int64_t order = 0;       // int32 [lanes, n_ordered], for KeepBest
  int64_t stays = 0;       // unsigned char, alike, for KeepBestOfLayer
  int64_t scores = 0;      // float [lanes, n_kv_heads, slots]; where `adaptive` without gaps
  int64_t keys = 0;        // float [lanes, head_slots, head_dim], where the policy needs them
  int64_t values = 0;      // float [lanes, head_slots, value_dim], alike
  int64_t masses = 0;      // float [lanes, head_slots]: the attention that a head's tokens got
  int64_t statistics = 0;  // double [lanes, statistics_size], alike
  int64_t statistics_size = 0;
  bool has_keys = false;
  bool has_values = false;
  // Where policies need it: for each number of queries that any of them goes by, and for each first
  // query that counts.
  std::vector<AttendedShape> attended;
  std::vector<QueryShape> queries;
};

bool GoesByAttention(const Policy& policy);
bool GoesByQueries(const Policy& policy);

// By what tokens leave: the policy, and how many stay.
struct BudgetRule {
  std::string name;
  BudgetOptions options;
  std::unique_ptr<Policy> policy;
};
// REQUIRES: one rule at least; they differ in policy, tokens and ratio alone.
absl::StatusOr<BudgetShape> ShapeOfBudget(const CacheSpec& spec, std::span<const BudgetRule> rules);

class BudgetStore final : public TileStore,
                          public Statistics,
                          public AttendedMass,
                          public PlainQueries,
                          public ContextMark,
                          public KeepRules,
                          public SequenceImages {
 public:
  // memory: [shape.pages.plan.bytes], 64-byte aligned, zero. rules: those of the shape. Sequences
  // go by the first one unless they are told otherwise.
  BudgetStore(const PluginContext& context, const CacheSpec& spec, std::vector<BudgetRule> rules,
              const BudgetShape& shape, std::shared_ptr<std::byte> memory);

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
  int64_t MassTokens(const SequenceRows& rows) const override;
  absl::Status Attended(int layer, const SequenceRows& rows,
                        const TensorView<const float, 3>& mass) override;
  void SetRotation(int layer, const Rotation& rotation, double scale) override;
  absl::Status Queries(int layer, std::span<const SequenceRows> rows,
                       const TensorView<const float, 3>& q) override;
  absl::Status SetMark(SequenceId sequence, int64_t length) override;
  int64_t Mark(SequenceId sequence) const override { return At(sequence).mark; }
  std::span<const std::string> Rules() const override { return rule_names_; }
  absl::Status SetRule(SequenceId sequence, int rule) override;
  int64_t ImageBytes(SequenceId sequence) const override;
  absl::Status ExportImage(SequenceId sequence, std::span<std::byte> image) const override;
  absl::Status ImportImage(SequenceId sequence, int64_t length,
                           std::span<const std::byte> image) override;

 private:
  struct Slot {
    bool open = false;
    int64_t length = 0;
    int64_t capacity = 0;
    int64_t left_at = 0;  // tokens that there were when some have left the last time; 0: none has
    int64_t mark = 0;     // 0: it has not been told
    size_t rule = 0;
  };
  // Of one layer of a sequence.
  struct Held {
    int64_t gone = 0;  // tokens that have left; where `adaptive` on the average of the heads
    int64_t kept = 0;  // tokens that were left then, likewise
  };

  // How a layer rotates queries and keys.
  struct LayerRotation {
    std::vector<double> angles;
    Rotation rotation;  // of these angles
    double scale = 0.0;
  };

  // Calls it with each of attended_ and of queries_.
  template <class Call>
  void ForSums(Call call) const {
    for (const auto& sums : attended_) call(*sums);
    for (const auto& sums : queries_) call(*sums);
  }
  absl::Status MakeRoom(const SequenceRows& rows) override;
  // Whether tokens leave behind these rows, and in which layer.
  bool Evicts(const SequenceRows& rows) const;
  bool EvictsIn(int layer, const SequenceRows& rows) const;
  // Tokens that stay in a layer then, of all that there have been.
  int64_t KeptIn(SequenceId sequence, int layer, int64_t length) const {
    return RuleOf(sequence).options.KeptIn(length, layers_[static_cast<size_t>(layer)],
                                           n_run_layers_);
  }
  // Chooses what a sequence keeps, in all layers; nothing has changed yet.
  absl::Status Choose(const SequenceRows& rows);
  // The same in one layer. [worker]
  absl::Status ChooseInLayer(const SequenceRows& rows, const KvView& view, int64_t lane);
  // The scores of one kv head. [worker]
  absl::Status Score(const SequenceRows& rows, const KvView& view, int kv_head, int64_t lane);
  // Writes which slots of the layer's heads stay, where these may keep different numbers, and how
  // many they are. [worker]
  void ChooseOverHeads(const KvView& view, int64_t lane);
  // [n_slots of the head] of one kv head of the lane's layer.
  std::span<float> ScoresOf(int64_t lane, const KvView& view, int kv_head) const;
  // Lets go what has not been chosen.
  absl::Status Evict(const SequenceRows& rows);
  // The same in one kv head of a layer. [worker]
  void EvictFrom(const SequenceRows& rows, int layer, int head);
  // Puts the heads of a layer where they then belong, which hold different numbers.
  void MoveHeads(const SequenceRows& rows, int layer);
  // Says where each head has its slots, by n_kept, where tokens have left at `length`.
  void PlaceHeads(int64_t length, std::span<HeadSlots> heads) const;
  // Of `heads_` or `next_heads_`, those of a layer. [n_kv_heads]
  template <class Heads>
  auto HeadsIn(Heads& heads, SequenceId sequence, int layer) const {
    const int64_t at = (int64_t{sequence} * n_layers_ + layer) * n_kv_heads_;
    return std::span(heads).subspan(static_cast<size_t>(at), static_cast<size_t>(n_kv_heads_));
  }
  // The slots that a head is about to keep.
  std::span<int32_t> ChosenOf(SequenceId sequence, int layer, int kv_head, int64_t n_kept) const;
  // All that is known of a sequence.
  void Walk(SequenceId sequence, SequenceImage& image);
  void FindHeld(SequenceId sequence);
  void WalkLayer(SequenceId sequence, int layer, SequenceImage& image);
  void WalkHeads(SequenceId sequence, int layer, SequenceImage& image);

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
  const BudgetRule& RuleOf(SequenceId sequence) const { return rules_[At(sequence).rule]; }
  // What a policy goes by that needs it.
  const AttendedSums& AttendedOf(const Policy& policy) const;
  const QuerySums& QueriesOf(const Policy& policy) const;
  Slot& At(SequenceId sequence) { return slots_[static_cast<size_t>(sequence)]; }
  const Slot& At(SequenceId sequence) const { return slots_[static_cast<size_t>(sequence)]; }

  Executor& executor_;
  const std::vector<BudgetRule> rules_;
  const std::vector<std::string> rule_names_;
  const BudgetOptions& options_;  // of the first rule; what all have alike
  const BudgetShape shape_;
  const int head_dim_;
  const int value_dim_;
  const std::vector<int> layers_;  // [n_layers], as the run numbers them
  const int n_run_layers_;
  const std::shared_ptr<std::byte> memory_;
  std::vector<std::unique_ptr<AttendedSums>> attended_;  // [shape.attended]
  std::vector<std::unique_ptr<QuerySums>> queries_;      // [shape.queries]
  std::vector<LayerRotation> rotations_;                 // [n_layers], where there are queries_
  std::vector<const std::byte*> pages_;                  // [max_sequences]
  std::vector<Slot> slots_;                              // [max_sequences]
  LayerStates<Held> held_;
  // Where heads may hold different numbers, what each has and what it is about to have.
  // [max_sequences, n_layers, n_kv_heads]
  std::vector<HeadSlots> heads_;
  std::vector<HeadSlots> next_heads_;
  std::vector<absl::Status> chosen_;  // [lanes]
  int64_t n_evictions_ = 0;
  int64_t n_gone_ = 0;  // in all layers together
  double seconds_ = 0.0;
};

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_BUDGET_BUDGET_STORE_H_
