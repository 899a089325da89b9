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

#include "plugins/attention/flash/flash_kernel.h"
#include "plugins/attention/flash/flash_plan.h"

namespace ng {

namespace {

constexpr int kMaxHeadDim = 1024;
constexpr std::array<std::string_view, 1> kLayouts = {kLayoutTiles16};
constexpr std::array kFeatures = {
    kFeatureWindow,        kFeatureSoftCap,  kFeatureSinks, kFeatureAlibi, kFeatureQueryTemperature,
    kFeatureChunkedWindow, kFeatureVHeadDim, kFeatureVInK,  kFeatureSlots, kFeatureHeadSlots,
    kFeatureAttended};

}  // namespace

FlashAttention::FlashAttention(const PluginContext& context)
    : FlashAttention(context, "flash", 0) {}

FlashAttention::FlashAttention(const PluginContext& context, std::string name, int64_t most_tiles)
    : executor_(*context.executor),
      kernel_(KernelsFor<FlashKernel>(context.isa)),
      name_(std::move(name)),
      most_tiles_(most_tiles) {}

std::span<const std::string_view> FlashAttention::layouts() const { return kLayouts; }

std::span<const std::string_view> FlashAttention::features() const { return kFeatures; }

absl::Status FlashAttention::Refuse(const std::string& what, const std::string& can) const {
  return PluginError("attention '" + name_ + "' cannot do " + what + "; it does " + can);
}

absl::Status FlashAttention::Supports(const AttentionSpec& spec, const CacheFormat& format) const {
  if (std::ranges::count(layouts(), format.layout) == 0) {
    return Refuse("cache layout '" + std::string(format.layout) + "'",
                  std::string(layouts().front()));
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

absl::StatusOr<std::unique_ptr<AttentionPlan>> FlashAttention::NewPlan(const AttentionSpec& spec) {
  return std::make_unique<FlashPlan>(spec);
}

absl::Status FlashAttention::Plan(std::span<const SequenceRows> rows, AttentionPlan& plan) {
  CutIntoItems(
      {.threads = executor_.threads(), .block_rows = kernel_.block_rows, .most_tiles = most_tiles_},
      rows, static_cast<FlashPlan&>(plan));
  return absl::OkStatus();
}

absl::Status FlashAttention::CheckViews(const AttentionRun& run) const {
  for (size_t s = 0; s < run.rows.size(); ++s) {
    const SequenceRows& entry = run.rows[s];
    if (!std::ranges::equal(run.views[s].heads, entry.heads, {}, &HeadSlots::gone,
                            &HeadSlots::gone)) {
      return RuntimeError("attention '" + name_ + "': of sequence " +
                          std::to_string(entry.sequence) +
                          " other numbers of tokens have left the kv heads than planned");
    }
    if (run.views[s].gone != entry.gone) {
      return RuntimeError("attention '" + name_ + "': of sequence " +
                          std::to_string(entry.sequence) + " " + std::to_string(run.views[s].gone) +
                          " tokens have left, not " + std::to_string(entry.gone) + " as planned");
    }
    if (run.views[s].length >= entry.start_pos + entry.n_tokens) continue;
    return RuntimeError("attention '" + name_ + "': sequence " + std::to_string(entry.sequence) +
                        " has " + std::to_string(run.views[s].length) + " cached tokens, needs " +
                        std::to_string(entry.start_pos + entry.n_tokens));
  }
  return absl::OkStatus();
}

absl::Status FlashAttention::Run(const AttentionPlan& own_plan, const AttentionRun& run) {
  const auto& plan = static_cast<const FlashPlan&>(own_plan);
  NG_RETURN_IF_ERROR(CheckViews(run));
  for (const FlashItem& item : plan.items) {
    if (item.partials < 0) continue;
    const SequenceRows& entry = run.rows[static_cast<size_t>(item.sequence)];
    const int64_t first = FirstPlannedKey(plan.spec, entry, item.query_begin);
    const int64_t end =
        entry.start_pos + item.query_end - entry.GoneOf(item.kv_head) - item.skipped;
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

absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateFlashAttention(
    const PluginContext& context) {
  return std::make_unique<FlashAttention>(context);
}

}  // namespace ng
