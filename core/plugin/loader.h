// Makes parts with the plugins that PluginHost (ng/plugins.h) has loaded, and catches what they
// throw.
//
// Called by the engine while it opens ([load], one thread at a time); GuardPlugin also during a run
// ([step]).
#ifndef NG_CORE_PLUGIN_LOADER_H_
#define NG_CORE_PLUGIN_LOADER_H_

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "ng/attention_backend.h"
#include "ng/cache_store.h"
#include "ng/drafter.h"
#include "ng/fabric.h"
#include "ng/plugin.h"
#include "ng/plugins.h"
#include "ng/policy.h"
#include "ng/probe.h"
#include "ng/sampler.h"
#include "ng/status.h"

namespace ng {

class GuardedCache;

// Opens the library and checks its descriptor, wherever the file is. Errors: PluginError naming the
// path.
absl::StatusOr<LoadedPlugin> OpenPlugin(const PluginFile& file);

// Create through the descriptor, with the safety catch: an exception becomes a PluginError that
// names the plugin, and so does an error; see PluginFailed. Only a LimitError is handed on as it
// came: it is about the machine and not about the plugin. An attention backend comes with its guard
// (guarded_attention.h).
absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateAttention(const LoadedPlugin& plugin,
                                                                  const PluginContext& context);
absl::StatusOr<CachePlan> PlanCache(const LoadedPlugin& plugin, const PluginContext& context,
                                    const CacheSpec& spec);
// The store comes behind its guard (core/plugin/guarded_cache.h).
absl::StatusOr<std::unique_ptr<GuardedCache>> CreateCache(const LoadedPlugin& plugin,
                                                          const PluginContext& context,
                                                          const CacheSpec& spec);
// The stage comes guarded: its calls have the same catch.
absl::StatusOr<std::unique_ptr<SamplerStage>> CreateSampler(const LoadedPlugin& plugin,
                                                            const PluginContext& context);
// The probe comes behind its guard (core/plugin/guarded_probe.h).
absl::StatusOr<std::unique_ptr<Probe>> CreateProbe(const LoadedPlugin& plugin,
                                                   const PluginContext& context,
                                                   const ProbeModel& model);
// The drafter comes behind its guard (core/plugin/guarded_drafter.h).
absl::StatusOr<std::unique_ptr<Drafter>> CreateDrafter(const LoadedPlugin& plugin,
                                                       const PluginContext& context);

// The policy comes behind its guard (core/plugin/guarded_policy.h).
absl::StatusOr<std::unique_ptr<Policy>> CreatePolicy(const LoadedPlugin& plugin,
                                                     const PluginContext& context);

// The fabric comes behind its guard (core/plugin/guarded_fabric.h). A RuntimeError keeps its code.
absl::StatusOr<std::unique_ptr<Fabric>> CreateFabric(const LoadedPlugin& plugin,
                                                     const PluginContext& context,
                                                     const FabricSpec& spec);

// What an exception from a plugin becomes: a PluginError that names it.
absl::Status PluginThrew(const LoadedPlugin& plugin, std::string_view what);
// What an error from a plugin becomes: a PluginError that names it. LimitError and NumericError
// keep their code. REQUIRES: !status.ok().
absl::Status PluginFailed(const LoadedPlugin& plugin, const absl::Status& status);

// What a guard throws where a plugin fails in a call without a status; its message is one line. The
// engine's own safety catch turns it into the status that it carries.
class PluginFault : public std::exception {
 public:
  // REQUIRES: !status.ok().
  explicit PluginFault(const absl::Status& status) : status_(status), what_(status.message()) {}
  const absl::Status& status() const { return status_; }
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  absl::Status status_;
  std::string what_;
};

// Calls `call`, which calls into the plugin and returns a Status, with the safety catch.
template <typename Call>
absl::Status GuardPlugin(const LoadedPlugin& plugin, Call&& call) {
  try {
    absl::Status status = call();
    return status.ok() ? status : PluginFailed(plugin, status);
  } catch (const std::bad_alloc&) {
    throw;  // no fault of the plugin: the engine's own catch reports it
  } catch (const std::exception& error) {
    return PluginThrew(plugin, error.what());
  } catch (...) {
    return PluginThrew(plugin, "an exception of unknown type");
  }
}

// What a part has to say at the end of a run, in one line; of one that throws, what it threw. What
// the run has computed stands in any case.
template <typename Part>
std::string GuardReport(const Part& part) {
  try {
    return OneLine(part.Report());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return OneLine(std::string("Report threw: ") + error.what());
  } catch (...) {
    return "Report threw an exception of unknown type";
  }
}

}  // namespace ng

#endif  // NG_CORE_PLUGIN_LOADER_H_
