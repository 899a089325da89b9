// Calls into a plugin that has passed the handshake: create functions and the safety catch.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/plugin/guarded_attention.h"
#include "core/plugin/guarded_cache.h"
#include "core/plugin/guarded_drafter.h"
#include "core/plugin/guarded_fabric.h"
#include "core/plugin/guarded_policy.h"
#include "core/plugin/guarded_probe.h"
#include "core/plugin/guarded_sampler.h"
#include "core/plugin/loader.h"

namespace ng {
namespace {

// Calls `call`, which returns StatusOr<T>, with the safety catch. A LimitError is handed on as it
// came: it is about the machine. A UsageError stays one: it is about an option's value that only
// the plugin can judge.
template <typename T, typename Call>
absl::StatusOr<T> Guarded(const LoadedPlugin& plugin, Call&& call) {
  absl::StatusOr<T> result = absl::UnknownError("not called");
  const absl::Status status = GuardPlugin(plugin, [&] {
    result = call();
    return result.status();
  });
  if (status.ok() || absl::IsResourceExhausted(result.status())) return result;
  if (!absl::IsInvalidArgument(result.status())) return status;
  const absl::string_view message = status.message();
  return UsageError({message.data(), message.size()});
}

template <typename T, typename Call>
absl::StatusOr<std::unique_ptr<T>> Created(const LoadedPlugin& plugin, Call&& call) {
  absl::StatusOr<std::unique_ptr<T>> made = Guarded<std::unique_ptr<T>>(plugin, call);
  if (made.ok() && *made == nullptr) {
    return PluginFailed(plugin, PluginError("create returned OK and no object"));
  }
  return made;
}

// The same where an error may be about a file that the user names: a ModelFileError stays one.
template <typename T, typename Call>
absl::StatusOr<std::unique_ptr<T>> CreatedOfFiles(const LoadedPlugin& plugin, Call&& call) {
  absl::Status own;
  absl::StatusOr<std::unique_ptr<T>> created =
      Created<T>(plugin, [&]() -> absl::StatusOr<std::unique_ptr<T>> {
        absl::StatusOr<std::unique_ptr<T>> made = call();
        own = made.status();
        return made;
      });
  if (absl::IsDataLoss(own)) return own;
  return created;
}

}  // namespace

std::string LoadedPlugin::Describe() const {
  return absl::StrCat(descriptor->kind, " plugin '", descriptor->name, "' ", descriptor->version,
                      " (", path, ")");
}

absl::Status PluginThrew(const LoadedPlugin& plugin, std::string_view what) {
  return PluginError(
      absl::StrCat(plugin.Describe(), " threw: ", absl::string_view(what.data(), what.size())));
}

absl::Status PluginFailed(const LoadedPlugin& plugin, const absl::Status& status) {
  const std::string message = absl::StrCat(plugin.Describe(), ": ", status.message());
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return LimitError(message);
    case absl::StatusCode::kOutOfRange:
      return NumericError(message);
    default:
      return PluginError(message);
  }
}

absl::StatusOr<std::unique_ptr<AttentionBackend>> CreateAttention(const LoadedPlugin& plugin,
                                                                  const PluginContext& context) {
  NG_ASSIGN_OR_RETURN(std::unique_ptr<AttentionBackend> backend,
                      Created<AttentionBackend>(
                          plugin, [&] { return plugin.descriptor->attention->create(context); }));
  return GuardAttention(plugin, std::move(backend), context.check);
}

absl::StatusOr<CachePlan> PlanCache(const LoadedPlugin& plugin, const PluginContext& context,
                                    const CacheSpec& spec) {
  return Guarded<CachePlan>(plugin, [&]() -> absl::StatusOr<CachePlan> {
    NG_ASSIGN_OR_RETURN(CachePlan plan, plugin.descriptor->cache->plan(context, spec));
    NG_RETURN_IF_ERROR(CheckCachePlan(plan));
    if (spec.value_dim() != spec.head_dim && !plan.v_head_dim) {
      return PluginError(
          absl::StrCat("it keeps values as wide as keys alone; those of the model "
                       "have ",
                       spec.value_dim(), " dimensions, its keys ", spec.head_dim));
    }
    if (plan.v_in_k && !spec.v_in_k) {
      return PluginError("the plan has v_in_k, the spec has not");
    }
    return plan;
  });
}

absl::StatusOr<std::unique_ptr<GuardedCache>> CreateCache(const LoadedPlugin& plugin,
                                                          const PluginContext& context,
                                                          const CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(const CachePlan plan, PlanCache(plugin, context, spec));
  NG_ASSIGN_OR_RETURN(std::unique_ptr<CacheStore> store, Created<CacheStore>(plugin, [&] {
                        return plugin.descriptor->cache->create(context, spec);
                      }));
  return GuardedCache::Make(plugin, std::move(store), plan, spec, context.check);
}

absl::StatusOr<std::unique_ptr<SamplerStage>> CreateSampler(const LoadedPlugin& plugin,
                                                            const PluginContext& context) {
  NG_ASSIGN_OR_RETURN(std::unique_ptr<SamplerStage> stage, Created<SamplerStage>(plugin, [&] {
                        return plugin.descriptor->sampler->create(context);
                      }));
  return std::make_unique<GuardedSampler>(plugin, std::move(stage), context);
}

absl::StatusOr<std::unique_ptr<Probe>> CreateProbe(const LoadedPlugin& plugin,
                                                   const PluginContext& context,
                                                   const ProbeModel& model) {
  NG_ASSIGN_OR_RETURN(std::unique_ptr<Probe> probe, CreatedOfFiles<Probe>(plugin, [&] {
                        return plugin.descriptor->probe->create(context, model);
                      }));
  return GuardedProbe::Make(plugin, std::move(probe), model, context.check);
}

absl::StatusOr<std::unique_ptr<Drafter>> CreateDrafter(const LoadedPlugin& plugin,
                                                       const PluginContext& context) {
  NG_ASSIGN_OR_RETURN(std::unique_ptr<Drafter> drafter, CreatedOfFiles<Drafter>(plugin, [&] {
                        return plugin.descriptor->drafter->create(context);
                      }));
  return std::make_unique<GuardedDrafter>(plugin, std::move(drafter), context.model.vocab_size);
}

absl::StatusOr<std::unique_ptr<Policy>> CreatePolicy(const LoadedPlugin& plugin,
                                                     const PluginContext& context) {
  NG_ASSIGN_OR_RETURN(std::unique_ptr<Policy> policy, Created<Policy>(plugin, [&] {
                        return plugin.descriptor->policy->create(context);
                      }));
  return GuardedPolicy::Make(plugin, std::move(policy));
}

absl::StatusOr<std::unique_ptr<Fabric>> CreateFabric(const LoadedPlugin& plugin,
                                                     const PluginContext& context,
                                                     const FabricSpec& spec) {
  absl::Status own;
  absl::StatusOr<std::unique_ptr<Fabric>> fabric =
      Created<Fabric>(plugin, [&]() -> absl::StatusOr<std::unique_ptr<Fabric>> {
        absl::StatusOr<std::unique_ptr<Fabric>> made =
            plugin.descriptor->fabric->create(context, spec);
        own = made.status();
        return made;
      });
  if (absl::IsInternal(own)) return KeepRuntimeError(plugin, own);
  NG_RETURN_IF_ERROR(fabric.status());
  return GuardedFabric::Make(plugin, *std::move(fabric), context.check);
}

}  // namespace ng
