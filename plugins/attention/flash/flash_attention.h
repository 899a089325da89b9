// Fast causal attention over tiles of 16 tokens ("tiles16"), codecs f32, bf16, f16, int8 and int4,
// grouped heads, head_dim and v_head_dim 1..1024. See flash_kernel.h for what is computed and in
// which order.
//
// A backend that reads some tiles only derives from it: it plans with `most_tiles`, and chooses the
// tiles before Run (FlashPlan::choices).
#ifndef NG_PLUGINS_ATTENTION_FLASH_FLASH_ATTENTION_H_
#define NG_PLUGINS_ATTENTION_FLASH_FLASH_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ng/attention_backend.h"
#include "ng/executor.h"
#include "ng/plugin.h"
#include "ng/status.h"
#include "plugins/attention/flash/flash_kernel.h"

namespace ng {

class FlashAttention : public AttentionBackend {
 public:
  explicit FlashAttention(const PluginContext& context);

  std::span<const std::string_view> layouts() const override;
  std::span<const std::string_view> features() const override;
  absl::Status Supports(const AttentionSpec& spec, const CacheFormat& format) const override;
  absl::StatusOr<std::unique_ptr<AttentionPlan>> NewPlan(const AttentionSpec& spec) override;
  absl::Status Plan(std::span<const SequenceRows> rows, AttentionPlan& plan) override;
  absl::Status Run(const AttentionPlan& own_plan, const AttentionRun& run) override;

 protected:
  // Of a backend that is called so, which reads at most so many tiles (FlashPlanOptions).
  FlashAttention(const PluginContext& context, std::string name, int64_t most_tiles);

  absl::Status CheckViews(const AttentionRun& run) const;
  absl::Status Refuse(const std::string& what, const std::string& can) const;

  Executor& executor_;
  const FlashKernel& kernel_;
  const std::string name_;
  const int64_t most_tiles_;
};

absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateFlashAttention(
    const PluginContext& context);

}  // namespace ng

#endif  // NG_PLUGINS_ATTENTION_FLASH_FLASH_ATTENTION_H_
