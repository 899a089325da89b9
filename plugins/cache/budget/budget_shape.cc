// What a store with a budget takes, and where it lies.
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "plugins/cache/budget/budget_store.h"

namespace ng {
namespace {

constexpr int64_t kAlignment = 64;
// Layers that are scored at the same time: as many threads have work.
constexpr int64_t kLanes = 8;

// Lays parts out one behind the other.
class Layout {
 public:
  explicit Layout(int64_t begin) : end_(begin) {}

  // Room for so many elements of `bytes` each, the product of `counts`; where it begins.
  int64_t Add(int64_t bytes, std::initializer_list<int64_t> counts) {
    int64_t size = bytes;
    for (const int64_t n : counts) overflowed_ |= __builtin_mul_overflow(size, n, &size);
    overflowed_ |= __builtin_add_overflow(end_, kAlignment - 1, &end_);
    end_ -= end_ % kAlignment;
    const int64_t begin = end_;
    overflowed_ |= __builtin_add_overflow(end_, size, &end_);
    return begin;
  }
  int64_t end() const { return end_; }
  bool overflowed() const { return overflowed_; }

 private:
  int64_t end_;
  bool overflowed_ = false;
};

absl::Status CheckNeeds(const Policy& policy, const std::string& name) {
  for (const std::string_view need : policy.needs()) {
    if (need == kNeedKeys || need == kNeedValues || need == kNeedAttended) continue;
    return PluginError("policy '" + name + "' needs '" + std::string(need) +
                       "', which this cache does not give; it gives positions, " +
                       std::string(kNeedKeys) + ", " + std::string(kNeedValues) + ", " +
                       std::string(kNeedAttended));
  }
  return absl::OkStatus();
}

// Lays out what is known of the attention that tokens got.
absl::StatusOr<AttendedShape> ShapeOfAttended(const CacheSpec& spec, const BudgetOptions& options,
                                              const Policy& policy, Layout& layout) {
  AttendedShape shape{.max_sequences = spec.max_sequences,
                      .n_layers = spec.n_layers,
                      .n_kv_heads = spec.n_kv_heads,
                      .slots = std::max<int64_t>(1, options.Slots(spec)),
                      .drafts = spec.draft_tokens,
                      .queries = policy.attended_queries(),
                      .every = options.at_mark ? 0 : options.every};
  if (!options.at_mark && shape.queries > options.every) {
    return UsageError("policy '" + options.policy + "' looks at the attention of the last " +
                      std::to_string(shape.queries) + " queries, must be at most " +
                      "cache.budget.every = " + std::to_string(options.every));
  }
  shape.sums = layout.Add(8, {spec.max_sequences, spec.n_layers, spec.n_kv_heads, 2, shape.slots});
  shape.log = layout.Add(
      4, {spec.max_sequences, spec.n_layers, spec.n_kv_heads, shape.drafts, shape.slots});
  return shape;
}

}  // namespace

absl::StatusOr<BudgetShape> ShapeOfBudget(const CacheSpec& spec, const BudgetOptions& options,
                                          const Policy& policy) {
  NG_RETURN_IF_ERROR(CheckNeeds(policy, options.policy));
  if (spec.max_tokens > std::numeric_limits<int32_t>::max()) {
    return LimitError("sequences of " + std::to_string(spec.max_tokens) +
                      " tokens: a cache with a budget takes at most 2147483647");
  }
  BudgetShape shape;
  shape.slots = std::max<int64_t>(1, options.Slots(spec));
  shape.kept = std::max<int64_t>(1, options.Kept(spec.max_tokens));
  CacheSpec held = spec;
  held.max_tokens = shape.slots;
  held.window = 0;
  NG_ASSIGN_OR_RETURN(shape.pages, MakePageShape(held));
  if (shape.pages.plan.layout != kLayoutTiles16) {
    return PluginError("tokens leave, so there are no bounds of keys (layout " +
                       std::string(shape.pages.plan.layout) +
                       "), by which the attention backend reads; contiguous and paged have them");
  }
  const auto needs = policy.needs();
  shape.has_keys = std::ranges::count(needs, kNeedKeys) != 0;
  shape.has_values = std::ranges::count(needs, kNeedValues) != 0;
  Layout layout(shape.pages.plan.bytes);
  for (int64_t* const part : {&shape.positions, &shape.chosen}) {
    *part = layout.Add(4, {spec.max_sequences, spec.n_layers, spec.n_kv_heads, shape.kept});
  }
  shape.lanes = std::min<int64_t>(kLanes, spec.n_layers);
  for (int64_t* const part : {&shape.held, &shape.order}) {
    *part = layout.Add(4, {shape.lanes, shape.slots});
  }
  shape.scores = layout.Add(4, {shape.lanes, spec.n_kv_heads, shape.slots});
  if (shape.has_keys) shape.keys = layout.Add(4, {shape.lanes, shape.slots, spec.head_dim});
  if (shape.has_values) shape.values = layout.Add(4, {shape.lanes, shape.slots, spec.value_dim()});
  shape.has_attended = std::ranges::count(needs, kNeedAttended) != 0;
  if (shape.has_attended) {
    NG_ASSIGN_OR_RETURN(shape.attended, ShapeOfAttended(spec, options, policy, layout));
    shape.masses = layout.Add(4, {shape.lanes, shape.slots});
  }
  if (layout.overflowed()) {
    return LimitError("a cache of " + std::to_string(spec.max_sequences) + " sequences of " +
                      std::to_string(shape.slots) + " tokens needs more than 2^63 - 1 bytes");
  }
  CachePlan& plan = shape.pages.plan;
  plan.bytes = layout.end();
  plan.image_tile_bytes = 0;
  plan.boundary_tokens = options.at_mark ? 0 : options.every;
  plan.mark = options.at_mark;
  plan.slots = shape.slots;
  plan.attended = shape.has_attended;
  return shape;
}

}  // namespace ng
