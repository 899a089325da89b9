#include "plugins/attention/flash/flash_plan.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "plugins/attention/flash/flash_kernel.h"
#include "plugins/attention/flash/flash_scratch.h"

namespace ng {
namespace {

// An item's rows (queries times the heads that share a kv head) share what they read of the keys
// while it is in the second-level cache. Fewer, to have more items, but not fewer than some blocks
// of the kernel if the keys can be shared out instead.
constexpr int64_t kMostRows = 192;
constexpr int64_t kFewestRows = 24;
constexpr int64_t kFewestRowsOfOneSplit = 8;
// Enough items that the last to finish is a small part of the whole.
constexpr int64_t kItemsPerThread = 8;
// Reading a key and its value costs about as much as computing with them for so many rows.
constexpr int64_t kRowsPerRead = 6;

class Cutter {
 public:
  Cutter(const FlashPlanOptions& options, std::span<const SequenceRows> rows, FlashPlan& plan)
      : options_(options),
        rows_(rows),
        plan_(plan),
        group_(plan.spec.n_heads / plan.spec.n_kv_heads),
        n_wanted_(options.threads == 1 ? 1 : options.threads * kItemsPerThread),
        n_queries_(QueriesPerItem()) {}

  void Cut() {
    plan_.items.clear();
    plan_.choices.clear();
    plan_.scratch_floats = 0;
    int64_t cost = 0;
    int64_t most_rows = 0;
    int64_t most_weights = 0;
    ForEachRows([&](const FlashItem& item) {
      cost += Cost(item);
      most_rows = std::max(most_rows, Rows(item));
      most_weights = std::max(most_weights, WeightFloats(item));
    });
    const int64_t cost_per_item = std::max<int64_t>(1, cost / n_wanted_);
    ForEachRows([&](const FlashItem& item) { CutKeys(item, cost_per_item); });
    std::sort(plan_.items.begin(), plan_.items.end(),
              [this](const auto& a, const auto& b) { return Order(a) < Order(b); });
    plan_.worker_floats =
        WorkerScratch::Floats(WidthsOf(plan_.spec), most_rows, options_.block_rows) + most_weights;
    plan_.scratch_floats += options_.threads * plan_.worker_floats;
    const size_t n_items = plan_.items.capacity() + plan_.choices.capacity();
    plan_.bytes = static_cast<int64_t>(n_items * sizeof(FlashItem));
  }

 private:
  // Many queries per item reuse the keys, enough items keep every thread busy.
  int64_t QueriesPerItem() const {
    int64_t longest = 0;
    for (const SequenceRows& rows : rows_) {
      const int64_t end = rows.start_pos + rows.n_tokens - rows.gone;
      longest = std::max(longest, end - SplitBegin(FirstKey(rows, rows.n_tokens - 1)));
    }
    const int64_t fewest_rows = SplitsOf(longest) > 1 ? kFewestRows : kFewestRowsOfOneSplit;
    const auto most = static_cast<uint64_t>(std::max<int64_t>(1, kMostRows / group_));
    auto n_queries = static_cast<int64_t>(std::bit_floor(most));
    while (n_queries > 1 && n_queries * group_ > fewest_rows && CountItems(n_queries) < n_wanted_) {
      n_queries /= 2;
    }
    return n_queries;
  }

  int64_t CountItems(int64_t n_queries) const {
    int64_t n_items = 0;
    for (const SequenceRows& rows : rows_) {
      n_items += (rows.n_tokens + n_queries - 1) / n_queries * plan_.spec.n_kv_heads;
    }
    return n_items;
  }

  // Calls body(item with all its keys) for every kv head and range of queries.
  template <class Body>
  void ForEachRows(const Body& body) const {
    for (size_t s = 0; s < rows_.size(); ++s) {
      const SequenceRows& rows = rows_[s];
      int64_t end = 0;
      for (int64_t begin = 0; begin < rows.n_tokens; begin = end) {
        end = EndOfItem(rows, begin);
        const int64_t skipped = SkippedKeys(rows, begin);
        for (int head = 0; head < plan_.spec.n_kv_heads; ++head) {
          body(FlashItem{.sequence = static_cast<int32_t>(s),
                         .kv_head = head,
                         .query_begin = begin,
                         .query_end = end,
                         .key_begin = SplitBegin(FirstKey(rows, begin)),
                         .key_end = rows.start_pos + end - rows.GoneOf(head) - skipped,
                         .skipped = skipped});
        }
      }
    }
  }

  // Where the item ends that begins with a query: one that passes over keys is alone.
  int64_t EndOfItem(const SequenceRows& rows, int64_t begin) const {
    const int64_t most = std::min(begin + n_queries_, rows.n_tokens);
    if (options_.most_tiles == 0) return most;
    int64_t end = begin + 1;
    if (SkippedKeys(rows, begin) > 0) return end;
    while (end < most && SkippedKeys(rows, end) == 0) ++end;
    return end;
  }

  // Keys that a query sees and does not read.
  int64_t SkippedKeys(const SequenceRows& rows, int64_t query) const {
    if (options_.most_tiles == 0) return 0;
    const int64_t pos = rows.start_pos + query;
    const int64_t n_tiles = pos / kTileTokens - plan_.spec.FirstKey(pos) / kTileTokens + 1;
    return std::max<int64_t>(0, n_tiles - options_.most_tiles) * kTileTokens;
  }

  // Adds the item, or several that share its keys.
  void CutKeys(FlashItem item, int64_t cost_per_item) {
    if (item.skipped > 0) {
      item.chosen = plan_.scratch_floats;
      plan_.scratch_floats += RoundUp16(options_.most_tiles);
      plan_.choices.push_back(item);
    }
    const int64_t first = item.key_begin;
    const int64_t n_keys = item.key_end;
    const int64_t n_splits = SplitsOf(n_keys - first);
    const int64_t n_parts =
        n_wanted_ == 1 ? 1 : std::min(n_splits, (Cost(item) - 1) / cost_per_item + 1);
    if (n_parts <= 1) return plan_.items.push_back(item);
    item.partials = plan_.scratch_floats;
    // In powers of two, so that a sequence that grows needs more but seldom.
    const auto n_room = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n_splits)));
    plan_.scratch_floats += SharedPartials::Floats(plan_.spec.v_head_dim, Rows(item), n_room);
    item.weights = plan_.scratch_floats;
    plan_.scratch_floats += WeightFloats(item);
    for (int64_t part = 0; part < n_parts; ++part) {
      item.key_begin = first + part * n_splits / n_parts * kSplitKeys;
      item.key_end = std::min(n_keys, first + (part + 1) * n_splits / n_parts * kSplitKeys);
      plan_.items.push_back(item);
    }
  }

  int64_t FirstKey(const SequenceRows& rows, int64_t query) const {
    return FirstPlannedKey(plan_.spec, rows, query);
  }
  static int64_t SplitBegin(int64_t key) { return key / kSplitKeys * kSplitKeys; }
  int64_t Rows(const FlashItem& item) const { return (item.query_end - item.query_begin) * group_; }
  // Of the weights of all keys, where they are asked for.
  int64_t WeightFloats(const FlashItem& item) const {
    const SequenceRows& rows = rows_[static_cast<size_t>(item.sequence)];
    const int64_t n_queries = item.query_end - FirstMassQuery(rows, item);
    if (n_queries == 0) return 0;
    return KeptWeights::Floats(n_queries * group_, SplitsOf(item.key_end - item.key_begin));
  }
  int64_t Cost(const FlashItem& item) const {
    // Where tiles are chosen, equal for all, so that queries side by side follow one another.
    const int64_t end = item.skipped > 0 ? RoundUp16(item.key_end) : item.key_end;
    return (Rows(item) + kRowsPerRead) * (end - item.key_begin);
  }

  // Longest first: workers take the next item as they finish, so the ends come close together.
  // Then as the keys lie in memory.
  std::tuple<int64_t, int32_t, int32_t, int64_t, int64_t> Order(const FlashItem& item) const {
    return {-Cost(item), item.sequence, item.kv_head, item.query_begin, item.key_begin};
  }

  const FlashPlanOptions options_;
  const std::span<const SequenceRows> rows_;
  FlashPlan& plan_;
  const int64_t group_;
  const int64_t n_wanted_;
  const int64_t n_queries_;
};

}  // namespace

void CutIntoItems(const FlashPlanOptions& options, std::span<const SequenceRows> rows,
                  FlashPlan& plan) {
  Cutter(options, rows, plan).Cut();
}

}  // namespace ng
