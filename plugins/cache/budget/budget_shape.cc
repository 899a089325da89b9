// What a store with a budget takes, and where it lies.
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "plugins/cache/budget/budget_store.h"
#include "plugins/cache/budget/head_runs.h"

namespace ng {
namespace {

bool Needs(const Policy& policy, std::string_view need) {
  return std::ranges::count(policy.needs(), need) != 0;
}

constexpr int64_t kAlignment = 64;
// Layers that are scored at the same time: as many threads have work.
constexpr int64_t kLanes = 8;

// What policies are given beside positions.
constexpr std::string_view kGiven[] = {kNeedKeys, kNeedValues, kNeedAttended, kNeedQueryStatistics,
                                       kNeedRotation};
// Rows of queries that are held one by one, so that sums are not copied for every token.
constexpr int64_t kLogRows = 16;

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
    if (std::ranges::count(kGiven, need) != 0) continue;
    std::string given;
    for (const std::string_view one : kGiven) given += ", " + std::string(one);
    return PluginError("policy '" + name + "' needs '" + std::string(need) +
                       "', which this cache does not give; it gives positions" + given);
  }
  return absl::OkStatus();
}

// What the runs of a layer's heads take, each in whole tiles, where they hold so many on the
// average.
int64_t RunSlots(int64_t slots, int64_t n_kv_heads) {
  return n_kv_heads * (slots + kTileTokens - 1) / kTileTokens * kTileTokens;
}

// The keys and values of all layers, one layer behind the other.
absl::Status LayOutLayers(const CacheSpec& spec, std::span<const BudgetRule> rules,
                          BudgetShape* shape) {
  const BudgetOptions& options = rules.front().options;
  const int n_run_layers = spec.n_run_layers == 0 ? spec.n_layers : spec.n_run_layers;
  CacheSpec held = spec;
  held.window = 0;
  Layout layout(0);
  shape->kept = 1;
  for (int layer = 0; layer < spec.n_layers; ++layer) {
    const int number = spec.layers.empty() ? layer : spec.layers[static_cast<size_t>(layer)];
    const int64_t slots = std::max<int64_t>(1, options.Slots(spec, number, n_run_layers));
    shape->slots = std::max(shape->slots, slots);
    shape->head_slots =
        std::max({shape->head_slots, slots, options.MostSlots(spec, number, n_run_layers)});
    for (const BudgetRule& rule : rules) {
      shape->kept = std::max(shape->kept, rule.options.MostKeptIn(spec, number, n_run_layers));
    }
    held.n_layers = 1;
    held.n_kv_heads = shape->adaptive ? 1 : spec.n_kv_heads;
    held.max_tokens = shape->adaptive ? RunSlots(slots, spec.n_kv_heads) : slots;
    NG_ASSIGN_OR_RETURN(const PageShape one, MakePageShape(held));
    BudgetShape::Layer& made = shape->layers.emplace_back();
    made = {one.k, one.v, one.page_tokens};
    shape->layer_slots = std::max(shape->layer_slots, one.page_tokens);
    if (shape->adaptive) {  // as long as all hold as many
      made.k.head_stride = TilesOf(slots) * made.k.tile_bytes;
      made.v.head_stride = TilesOf(slots) * made.v.tile_bytes;
      made.head_tiles = TilesOf(slots);
    }
    const int64_t begin = layout.Add(one.layer_bytes, {1});
    made.k.offset += begin;
    made.v.offset += begin;
  }
  held.n_layers = spec.n_layers;
  held.n_kv_heads = spec.n_kv_heads;
  held.max_tokens = shape->slots;
  NG_ASSIGN_OR_RETURN(shape->pages, MakePageShape(held));
  shape->pages.page_bytes = layout.end();
  return absl::OkStatus();
}

// Lays out what is known of the attention that tokens got, where the rule goes by it.
absl::Status AddAttended(const CacheSpec& spec, const BudgetRule& rule, BudgetShape& shape,
                         Layout& layout) {
  const BudgetOptions& options = rule.options;
  AttendedShape made{.max_sequences = spec.max_sequences,
                     .n_layers = spec.n_layers,
                     .n_kv_heads = spec.n_kv_heads,
                     .slots = shape.adaptive ? TilesOf(shape.slots) * kTileTokens : shape.slots,
                     .layer_slots = shape.adaptive ? shape.layer_slots : 0,
                     .drafts = spec.draft_tokens,
                     .queries = rule.policy->attended_queries(),
                     .every = options.at_mark ? 0 : options.every};
  if (!GoesByAttention(*rule.policy) ||
      std::ranges::count(shape.attended, made.queries, &AttendedShape::queries) > 0) {
    return absl::OkStatus();
  }
  if (!options.at_mark && made.queries > options.every) {
    return UsageError("policy '" + options.policy + "' looks at the attention of the last " +
                      std::to_string(made.queries) + " queries, must be at most " +
                      "cache.budget.every = " + std::to_string(options.every));
  }
  made.sums = layout.Add(8, {spec.max_sequences, spec.n_layers, 2, made.total()});
  made.log = layout.Add(4, {spec.max_sequences, spec.n_layers, made.drafts, made.total()});
  shape.attended.push_back(made);
  return absl::OkStatus();
}

// Lays out what is known of the queries, where the rule goes by them.
absl::Status AddQueries(const CacheSpec& spec, const BudgetRule& rule, BudgetShape& shape,
                        Layout& layout) {
  const int64_t first = rule.policy->first_query();
  if (!GoesByQueries(*rule.policy) ||
      std::ranges::count(shape.queries, first, &QueryShape::first) > 0) {
    return absl::OkStatus();
  }
  if (spec.n_heads < spec.n_kv_heads) {
    return PluginError("policy '" + rule.options.policy +
                       "' goes by queries: the cache is told of " + std::to_string(spec.n_heads) +
                       " heads of them, must be at least its " + std::to_string(spec.n_kv_heads) +
                       " kv heads");
  }
  QueryShape made{.max_sequences = spec.max_sequences,
                  .n_layers = spec.n_layers,
                  .n_heads = spec.n_heads,
                  .n_kv_heads = spec.n_kv_heads,
                  .head_dim = spec.head_dim,
                  .first = first,
                  .at_mark = rule.options.at_mark,
                  .log_rows = std::max(kLogRows, spec.draft_tokens)};
  made.data = layout.Add(8, {spec.max_sequences, spec.n_layers, 2, made.n_heads, made.sums()});
  made.log = layout.Add(
      4, {spec.max_sequences, spec.n_layers, made.log_rows, made.n_heads, made.head_dim});
  shape.queries.push_back(made);
  return absl::OkStatus();
}

}  // namespace

bool GoesByAttention(const Policy& policy) { return Needs(policy, kNeedAttended); }

bool GoesByQueries(const Policy& policy) {
  return Needs(policy, kNeedQueryStatistics) || Needs(policy, kNeedRotation);
}

absl::StatusOr<BudgetShape> ShapeOfBudget(const CacheSpec& spec,
                                          std::span<const BudgetRule> rules) {
  const BudgetOptions& options = rules.front().options;
  if (spec.max_tokens > std::numeric_limits<int32_t>::max()) {
    return LimitError("sequences of " + std::to_string(spec.max_tokens) +
                      " tokens: a cache with a budget takes at most 2147483647");
  }
  BudgetShape shape;
  shape.adaptive = options.safeguard.has_value();
  for (const BudgetRule& rule : rules) {
    NG_RETURN_IF_ERROR(CheckNeeds(*rule.policy, rule.options.policy));
    shape.has_keys |= Needs(*rule.policy, kNeedKeys);
    shape.has_values |= Needs(*rule.policy, kNeedValues);
  }
  NG_RETURN_IF_ERROR(LayOutLayers(spec, rules, &shape));
  if (shape.pages.plan.layout != kLayoutTiles16) {
    return PluginError("tokens leave, so there are no bounds of keys (layout " +
                       std::string(shape.pages.plan.layout) +
                       "), by which the attention backend reads; contiguous and paged have them");
  }
  Layout layout(0);
  layout.Add(shape.pages.page_bytes, {spec.max_sequences});
  for (int64_t* const part : {&shape.positions, &shape.chosen}) {
    *part = layout.Add(4, {spec.max_sequences, spec.n_layers, spec.n_kv_heads, shape.kept});
  }
  shape.lanes = std::min<int64_t>(kLanes, spec.n_layers);
  const int64_t most = shape.head_slots;
  shape.held = layout.Add(4, {shape.lanes, most});
  shape.n_ordered = shape.adaptive ? spec.n_kv_heads * shape.slots : shape.slots;
  shape.order = layout.Add(4, {shape.lanes, shape.n_ordered});
  if (shape.adaptive) shape.stays = layout.Add(1, {shape.lanes, shape.n_ordered});
  shape.scores = layout.Add(4, {shape.lanes, spec.n_kv_heads, shape.slots});
  if (shape.has_keys) shape.keys = layout.Add(4, {shape.lanes, most, spec.head_dim});
  if (shape.has_values) shape.values = layout.Add(4, {shape.lanes, most, spec.value_dim()});
  for (const BudgetRule& rule : rules) {
    NG_RETURN_IF_ERROR(AddAttended(spec, rule, shape, layout));
    NG_RETURN_IF_ERROR(AddQueries(spec, rule, shape, layout));
  }
  if (!shape.attended.empty()) shape.masses = layout.Add(4, {shape.lanes, most});
  if (!shape.queries.empty()) {
    shape.statistics_size =
        QuerySums::StatisticsSize(spec.n_heads / spec.n_kv_heads, spec.head_dim);
    shape.statistics = layout.Add(8, {shape.lanes, shape.statistics_size});
  }
  if (shape.adaptive && shape.n_ordered > std::numeric_limits<int32_t>::max()) {
    return LimitError(std::to_string(spec.n_kv_heads) + " kv heads of " +
                      std::to_string(shape.slots) +
                      " tokens each: with cache.budget.heads = adaptive a layer holds at most "
                      "2147483647");
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
  plan.head_slots = shape.adaptive ? most : 0;
  plan.sequence_images = true;
  plan.attended = !shape.attended.empty();
  plan.queries = !shape.queries.empty();
  return shape;
}

}  // namespace ng
