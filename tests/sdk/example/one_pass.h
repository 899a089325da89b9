// Attention in one pass over the keys, written to be read: the softmax is kept as a running
// maximum, sum and weighted output, corrected whenever a larger score turns up (Milakov and
// Gimelshein 2018). It reads rows through CacheStore::CopyRow, so it runs over any cache and codec.
#ifndef NG_EXAMPLE_ONE_PASS_H_
#define NG_EXAMPLE_ONE_PASS_H_

#include <memory>
#include <span>
#include <string_view>

#include "ng/attention_backend.h"
#include "ng/executor.h"
#include "ng/plugin.h"
#include "one_pass_kernels.h"

namespace ng_example {

class OnePass final : public ng::AttentionBackend {
 public:
  // The executor is the engine's and outlives the backend.
  explicit OnePass(const ng::PluginContext& context)
      : executor_(*context.executor), kernels_(ng::KernelsFor<Kernels>(context.isa)) {}

  std::span<const std::string_view> layouts() const override;
  absl::Status Supports(const ng::AttentionSpec& spec,
                        const ng::CacheFormat& format) const override;
  absl::StatusOr<std::unique_ptr<ng::AttentionPlan>> NewPlan(
      const ng::AttentionSpec& spec) override;
  absl::Status Plan(std::span<const ng::SequenceRows> rows, ng::AttentionPlan& plan) override;
  absl::Status Run(const ng::AttentionPlan& plan, const ng::AttentionRun& run) override;

 private:
  ng::Executor& executor_;
  const Kernels& kernels_;  // of the engine's instruction set level
};

}  // namespace ng_example

#endif  // NG_EXAMPLE_ONE_PASS_H_
