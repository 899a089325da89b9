// Attention that reads the pages of keys that matter to a query: Quest (Tang et al. 2024).
//
// A page is a tile of 16 tokens. Each query reads, of every kv head, at most `pages` of them: its
// own, the first that it sees, and those of the largest scores (choose_kernel.h) among the pages
// between, which are all full. A query that sees no more pages reads all; then its bits are those
// of `flash`, whose kernel reads and computes. What a query reads depends on itself and on the keys
// before it alone, never on steps, batches or threads.
//
// The bounds of each page are the store's (layout "tiles16_bounds"): it writes a page's rows and
// knows what becomes of them when sequences are forked, cut back, shared or loaded.
#ifndef NG_PLUGINS_ATTENTION_SPARSE_SPARSE_ATTENTION_H_
#define NG_PLUGINS_ATTENTION_SPARSE_SPARSE_ATTENTION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "plugins/attention/flash/flash_attention.h"
#include "plugins/attention/sparse/choose_kernel.h"

namespace ng {

class SparseAttention final : public FlashAttention {
 public:
  // Options: pages, at least 2; measure.
  explicit SparseAttention(const PluginContext& context);

  std::span<const std::string_view> layouts() const override;
  std::span<const std::string_view> features() const override;
  int64_t most_keys() const override;
  absl::Status Supports(const AttentionSpec& spec, const CacheFormat& format) const override;
  absl::StatusOr<std::unique_ptr<AttentionPlan>> NewPlan(const AttentionSpec& spec) override;
  absl::Status Plan(std::span<const SequenceRows> rows, AttentionPlan& plan) override;
  absl::Status Run(const AttentionPlan& own_plan, const AttentionRun& run) override;
  std::string Report() const override;

 private:
  // Over all queries and heads that did not read all pages: the share of attention that the pages
  // which they passed over would have had. Whole numbers, whose sum has no order.
  struct Missed {
    static constexpr double kWhole = 1U << 30;
    std::atomic<int64_t> rows{0};
    std::atomic<int64_t> sum{0};
    std::atomic<int64_t> most{0};
  };

  // Item by item, each by the next worker that is free. body(item, its scratch)
  template <class Body>
  absl::Status ForItems(int64_t n_items, const AttentionPlan& plan, const AttentionRun& run,
                        const Body& body);
  // What a query would have read of the pages that are not chosen. [worker]
  void Measure(const AttentionPlan& own_plan, const AttentionRun& run, int64_t item, float* memory);

  const ChooseKernel& chooser_;
  const bool measure_;
  Missed missed_;
};

}  // namespace ng

#endif  // NG_PLUGINS_ATTENTION_SPARSE_SPARSE_ATTENTION_H_
