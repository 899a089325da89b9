#include "plugins/attention/flash/flash_attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ng/executor.h"
#include "plugins/attention/flash/flash_kernel.h"
#include "plugins/attention/flash/flash_plan.h"

namespace ng {

namespace {

constexpr int kMaxHeadDim = 1024;
constexpr std::array<std::string_view, 1> kLayouts = {kLayoutTiles16};
constexpr std::array kFeatures = {
    kFeatureWindow,        kFeatureSoftCap,  kFeatureSinks, kFeatureAlibi, kFeatureQueryTemperature,
    kFeatureChunkedWindow, kFeatureVHeadDim, kFeatureVInK,  kFeatureSlots, kFeatureAttended};

absl::Status Refuse(const std::string& what, const std::string& can) {
  return PluginError("attention 'flash' cannot do " + what + "; it does " + can);
}

class FlashAttention : public AttentionBackend {
 public:
  FlashAttention(Executor& executor, const FlashKernel& kernel)
      : executor_(executor), kernel_(kernel) {}

  std::span<const std::string_view> layouts() const override { return kLayouts; }

  std::span<const std::string_view> features() const override { return kFeatures; }

  absl::Status Supports(const AttentionSpec& spec, const CacheFormat& format) const override {
    if (format.layout != kLayoutTiles16) {
      return Refuse("cache layout '" + std::string(format.layout) + "'",
                    std::string(kLayoutTiles16));
    }
    for (const Codec codec : {format.codec_k, format.codec_v}) {
      if (CodecBits(codec) > 0) continue;
      return Refuse("cache codec number " + std::to_string(static_cast<int32_t>(codec)),
                    AllCodecNames());
    }
    for (const auto& [name, width] :
         {std::pair("head_dim", spec.head_dim), std::pair("v_head_dim", spec.v_head_dim)}) {
      if (width >= 1 && width <= kMaxHeadDim) continue;
      return Refuse(std::string(name) + " = " + std::to_string(width),
                    "1 to " + std::to_string(kMaxHeadDim));
    }
    if (spec.n_kv_heads < 1 || spec.n_heads < 1 || spec.n_heads % spec.n_kv_heads != 0) {
      return Refuse("n_heads = " + std::to_string(spec.n_heads) +
                        " over n_kv_heads = " + std::to_string(spec.n_kv_heads),
                    "whole multiples");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<AttentionPlan>> NewPlan(const AttentionSpec& spec) override {
    return std::make_unique<FlashPlan>(spec);
  }

  absl::Status Plan(std::span<const SequenceRows> rows, AttentionPlan& plan) override {
    CutIntoItems({.threads = executor_.threads(), .block_rows = kernel_.block_rows}, rows,
                 static_cast<FlashPlan&>(plan));
    return absl::OkStatus();
  }

  absl::Status Run(const AttentionPlan& own_plan, const AttentionRun& run) override {
    const auto& plan = static_cast<const FlashPlan&>(own_plan);
    for (size_t s = 0; s < run.rows.size(); ++s) {
      const SequenceRows& entry = run.rows[s];
      if (run.views[s].gone != entry.gone) {
        return RuntimeError("attention 'flash': of sequence " + std::to_string(entry.sequence) +
                            " " + std::to_string(run.views[s].gone) + " tokens have left, not " +
                            std::to_string(entry.gone) + " as planned");
      }
      if (run.views[s].length >= entry.start_pos + entry.n_tokens) continue;
      return RuntimeError("attention 'flash': sequence " + std::to_string(entry.sequence) +
                          " has " + std::to_string(run.views[s].length) + " cached tokens, needs " +
                          std::to_string(entry.start_pos + entry.n_tokens));
    }
    for (const FlashItem& item : plan.items) {
      if (item.partials < 0) continue;
      const SequenceRows& entry = run.rows[static_cast<size_t>(item.sequence)];
      const int64_t first = FirstPlannedKey(plan.spec, entry, item.query_begin);
      const int64_t end = entry.start_pos + item.query_end - entry.gone;
      run.scratch[static_cast<size_t>(item.partials)] =
          static_cast<float>(SplitsOf(end) - first / kSplitKeys);
    }
    // Workers take items one by one, as they are much unlike in cost; each the next one ahead of
    // time, to fetch its keys.
    const auto n_items = static_cast<int64_t>(plan.items.size());
    float* own = run.scratch.data() + plan.scratch_floats -
                 executor_.threads() * plan.worker_floats;  // [threads][worker_floats]
    std::atomic<int64_t> n_taken{0};
    const auto take = [&]() -> const FlashItem* {
      const int64_t i = n_taken.fetch_add(1, std::memory_order_relaxed);
      return i < n_items ? &plan.items[static_cast<size_t>(i)] : nullptr;
    };
    const int64_t n_workers = std::min<int64_t>(executor_.threads(), n_items);
    return ParallelFor(executor_, n_workers, [&](int64_t, int64_t, int worker) {
      float* scratch = own + worker * plan.worker_floats;
      const FlashItem* item = take();
      while (item != nullptr) {
        const FlashItem* next = take();
        kernel_.attend(run, {plan.spec, *item, next}, scratch);
        item = next;
      }
    });
  }

 private:
  Executor& executor_;
  const FlashKernel& kernel_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateFlashAttention(
    const PluginContext& context) {
  return std::make_unique<FlashAttention>(*context.executor, KernelsFor<FlashKernel>(context.isa));
}

}  // namespace ng
