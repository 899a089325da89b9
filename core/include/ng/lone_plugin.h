// LonePlugin: a plugin without an engine, for programs and tests that look at one: ng-conform.
//
// It is opened and checked as an engine does it, has its options checked against its table, and can
// make parts of other plugins (ng/part_host.h). Its parts come as the plugin makes them, without
// the guard that an engine puts around them: exceptions pass.
//
// Implemented by ng. All calls are [load], on one thread.
#ifndef NG_LONE_PLUGIN_H_
#define NG_LONE_PLUGIN_H_

#include <memory>
#include <span>
#include <string>

#include "ng/fabric.h"
#include "ng/part_host.h"
#include "ng/plugin.h"
#include "ng/policy.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

class LonePlugin {
 public:
  // `path`: a file named ng_<kind>_<name>.so, anywhere. Options are those of `config`
  // ("<kind>.<name>.<option>=value"), and `options` ("<option>=value") win. Inner parts are looked
  // up in the folders that `config` names as plugins.path=..., and where this installation keeps
  // its own; `config` has their options too. Errors: PluginError as PluginHost::Load; UsageError
  // for an option.
  static absl::StatusOr<std::unique_ptr<LonePlugin>> Open(const std::string& path,
                                                          std::span<const std::string> options,
                                                          std::span<const std::string> config);
  virtual ~LonePlugin() = default;

  // What the plugin says of itself; valid for the life of the process.
  virtual const PluginDescriptor& descriptor() const = 0;

  // Make a part, or plan one. `context` is completed with the options and the host; the caller has
  // set the rest. Destroy the part before this. Errors: the plugin's own.
  // REQUIRES: the plugin is of this kind.
  virtual absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateAttention(
      const PluginContext& context) = 0;
  virtual absl::StatusOr<std::unique_ptr<CacheStore>> CreateCache(const PluginContext& context,
                                                                  const CacheSpec& spec) = 0;
  virtual absl::StatusOr<CachePlan> PlanCache(const PluginContext& context,
                                              const CacheSpec& spec) = 0;
  virtual absl::StatusOr<std::unique_ptr<SamplerStage>> CreateSampler(
      const PluginContext& context) = 0;
  virtual absl::StatusOr<std::unique_ptr<Probe>> CreateProbe(const PluginContext& context,
                                                             const ProbeModel& model) = 0;
  virtual absl::StatusOr<std::unique_ptr<Drafter>> CreateDrafter(const PluginContext& context) = 0;
  virtual absl::StatusOr<std::unique_ptr<Fabric>> CreateFabric(const PluginContext& context,
                                                               const FabricSpec& spec) = 0;
  virtual absl::StatusOr<std::unique_ptr<Policy>> CreatePolicy(const PluginContext& context) = 0;

  // Makes parts of other plugins with this context, until it is asked for with another one.
  virtual PartHost& HostFor(const PluginContext& context) = 0;
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_LONE_PLUGIN_H_
