#include "plugins/attention/flash/flash_attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ng/executor.h"
#include "plugins/attention/flash/flash_kernel.h"

namespace ng {

const FlashKernel& GetFlashKernel(IsaLevel level) {
  switch (level) {
    case IsaLevel::kAvx512:
    case IsaLevel::kAvx512Vnni:
    case IsaLevel::kAvx512Bf16:
      return Avx512FlashKernel();
    case IsaLevel::kAvx2:
      return Avx2FlashKernel();
    case IsaLevel::kScalar:
      break;
  }
  return ScalarFlashKernel();
}

namespace {

constexpr int kMaxHeadDim = 512;
constexpr std::array<std::string_view, 1> kLayouts = {kLayoutTiles16};

// An item's rows share what they read of the keys while it is in the second-level cache.
constexpr unsigned kItemRows = 96;
constexpr int64_t kFewestItemRows = 8;  // about one block of the kernel
// Enough items that the last to finish is a small part of the whole.
constexpr int64_t kItemsPerThread = 4;

absl::Status Refuse(const std::string& what, const std::string& can) {
  return PluginError("attention 'flash' cannot do " + what + "; it does " + can);
}

bool KnownCodec(Codec codec) {
  return codec == Codec::kF32 || codec == Codec::kBf16 || codec == Codec::kF16;
}

class FlashAttention : public AttentionBackend {
 public:
  FlashAttention(Executor& executor, const FlashKernel& kernel)
      : executor_(executor), kernel_(kernel) {}

  std::span<const std::string_view> layouts() const override { return kLayouts; }

  absl::Status Supports(const AttentionSpec& spec, const CacheFormat& format) const override {
    if (!spec.needs.empty()) {
      return Refuse("the need '" + std::string(spec.needs.front()) + "'",
                    "plain causal attention only");
    }
    if (format.layout != kLayoutTiles16) {
      return Refuse("cache layout '" + std::string(format.layout) + "'",
                    std::string(kLayoutTiles16));
    }
    for (const Codec codec : {format.codec_k, format.codec_v}) {
      if (KnownCodec(codec)) continue;
      return Refuse("cache codec number " + std::to_string(static_cast<int32_t>(codec)),
                    "f32, bf16, f16");
    }
    if (spec.head_dim < 1 || spec.head_dim > kMaxHeadDim) {
      return Refuse("head_dim = " + std::to_string(spec.head_dim),
                    "1 to " + std::to_string(kMaxHeadDim));
    }
    if (spec.n_kv_heads < 1 || spec.n_heads < 1 || spec.n_heads % spec.n_kv_heads != 0) {
      return Refuse("n_heads = " + std::to_string(spec.n_heads) +
                        " over n_kv_heads = " + std::to_string(spec.n_kv_heads),
                    "whole multiples");
    }
    return absl::OkStatus();
  }

  absl::Status Plan(const AttentionSpec& spec, std::span<const SequenceRows> rows,
                    AttentionPlan* plan) override {
    plan->spec = spec;
    plan->rows = rows;
    plan->items.clear();
    const int64_t n_queries = QueriesPerItem(spec, rows);
    int64_t most_queries = 0;
    for (size_t s = 0; s < rows.size(); ++s) {
      const SequenceRows& entry = rows[s];
      for (int64_t begin = 0; begin < entry.n_tokens; begin += n_queries) {
        const int64_t end = std::min(begin + n_queries, entry.n_tokens);
        most_queries = std::max(most_queries, end - begin);
        for (int head = 0; head < spec.n_kv_heads; ++head) {
          plan->items.push_back({.sequence = static_cast<int32_t>(s),
                                 .kv_head = head,
                                 .query_begin = begin,
                                 .query_end = end,
                                 .key_begin = 0,
                                 .key_end = entry.start_pos + end});
        }
      }
    }
    // Longest first: workers take the next item as they finish, so the ends come close together.
    std::sort(plan->items.begin(), plan->items.end(), MoreWork);
    const int group = spec.n_heads / spec.n_kv_heads;
    plan->scratch_floats =
        executor_.threads() * kernel_.scratch_floats(spec.head_dim, most_queries * group);
    return absl::OkStatus();
  }

  absl::Status Run(const AttentionPlan& plan, const AttentionRun& run) override {
    for (size_t s = 0; s < plan.rows.size(); ++s) {
      const SequenceRows& entry = plan.rows[s];
      if (run.views[s].length >= entry.start_pos + entry.n_tokens) continue;
      return RuntimeError("attention 'flash': sequence " + std::to_string(entry.sequence) +
                          " has " + std::to_string(run.views[s].length) + " cached tokens, needs " +
                          std::to_string(entry.start_pos + entry.n_tokens));
    }
    const auto n_items = static_cast<int64_t>(plan.items.size());
    const int64_t worker_floats = plan.scratch_floats / executor_.threads();
    std::atomic<int64_t> next{0};
    const int64_t n_workers = std::min<int64_t>(executor_.threads(), n_items);
    return ParallelFor(executor_, n_workers, [&](int64_t, int64_t, int worker) {
      float* scratch = run.scratch.data() + worker * worker_floats;
      for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < n_items;
           i = next.fetch_add(1, std::memory_order_relaxed)) {
        kernel_.attend(plan, run, plan.items[static_cast<size_t>(i)], scratch);
      }
    });
  }

 private:
  static bool MoreWork(const AttentionItem& a, const AttentionItem& b) {
    return (a.query_end - a.query_begin) * a.key_end > (b.query_end - b.query_begin) * b.key_end;
  }

  // Many queries per item reuse the keys, enough items keep every thread busy: halves from the most
  // until there are enough. Changes no bit of the result.
  int64_t QueriesPerItem(const AttentionSpec& spec, std::span<const SequenceRows> rows) const {
    const auto group = static_cast<unsigned>(spec.n_heads / spec.n_kv_heads);
    int64_t n_queries = std::bit_floor(std::max(1U, kItemRows / group));
    const int64_t wanted = executor_.threads() * kItemsPerThread;
    while (n_queries > 1 && n_queries * group > kFewestItemRows) {
      int64_t n_items = 0;
      for (const SequenceRows& entry : rows) {
        n_items += (entry.n_tokens + n_queries - 1) / n_queries * spec.n_kv_heads;
      }
      if (n_items >= wanted) break;
      n_queries /= 2;
    }
    return n_queries;
  }

  Executor& executor_;
  const FlashKernel& kernel_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateFlashAttention(
    const PluginContext& context) {
  return std::make_unique<FlashAttention>(*context.executor, GetFlashKernel(context.isa));
}

}  // namespace ng
