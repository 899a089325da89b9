// PartHost: makes parts out of other plugins, for a plugin that is a wrapper around them.
//
// A comparison of two attention backends, a cache store that logs what another one does, or a
// mixture of samplers are ordinary plugins: they create the parts that they wrap through
// PluginContext::host and hand their calls on. What comes back is guarded like every part: it
// reports exceptions and wrong answers of the inner plugin as errors that name it.
//
// Implemented by the engine; lives as long as the engine. All calls are [load], on the thread that
// calls the plugin's create or plan function, and only while that call runs.
#ifndef NG_PART_HOST_H_
#define NG_PART_HOST_H_

#include <memory>
#include <span>
#include <string_view>

#include "ng/attention_backend.h"
#include "ng/cache_store.h"
#include "ng/drafter.h"
#include "ng/policy.h"
#include "ng/probe.h"
#include "ng/sampler.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

// One option of the inner plugin, written as in the config file: {"k", "40"}.
struct OptionOverride {
  std::string_view option;
  std::string_view value;
};

class PartHost {
 public:
  virtual ~PartHost() = default;

  // A part of the plugin that the config would call `name`. Its options are those that the config
  // sets for it (attention.<name>.<option> = ...), and `overrides` win. The caller owns the part
  // and destroys it before it is destroyed itself.
  // Errors: PluginError when there is no such plugin, it cannot be loaded, or plugins create one
  // another without end; UsageError for an option that it does not have or a value that it does not
  // allow; what its own create function says.
  virtual absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateAttention(
      std::string_view name, std::span<const OptionOverride> overrides) = 0;
  virtual absl::StatusOr<std::unique_ptr<CacheStore>> CreateCache(
      std::string_view name, const CacheSpec& spec, std::span<const OptionOverride> overrides) = 0;
  virtual absl::StatusOr<std::unique_ptr<SamplerStage>> CreateSampler(
      std::string_view name, std::span<const OptionOverride> overrides) = 0;

  // What the store that CreateCache makes would reserve. Reserves nothing. Errors: as above.
  virtual absl::StatusOr<CachePlan> PlanCache(std::string_view name, const CacheSpec& spec,
                                              std::span<const OptionOverride> overrides) = 0;

  // As the other Create functions.
  virtual absl::StatusOr<std::unique_ptr<Probe>> CreateProbe(
      std::string_view name, const ProbeModel& model,
      std::span<const OptionOverride> overrides) = 0;
  virtual absl::StatusOr<std::unique_ptr<Drafter>> CreateDrafter(
      std::string_view name, std::span<const OptionOverride> overrides) = 0;
  virtual absl::StatusOr<std::unique_ptr<Policy>> CreatePolicy(
      std::string_view name, std::span<const OptionOverride> overrides) = 0;
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_PART_HOST_H_
