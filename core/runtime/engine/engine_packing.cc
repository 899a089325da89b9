// Engine: the weights to a packed file, and whether one holds them.
#include <string>

#include "absl/strings/str_cat.h"
#include "core/model/adapters/merge_adapters.h"
#include "core/model/load/load_weights.h"
#include "core/model/load/packed_weights.h"
#include "core/runtime/engine/engine_state.h"
#include "core/runtime/plan/planned_run.h"

namespace ng {
namespace {

// The weights of the model's own files, with their hash, as far as there is memory for them; and
// added to them what adapters add.
absl::StatusOr<ModelWeights> LoadOwn(const Assembly& assembly, LoadWeightsOptions load) {
  RunNeeds needs;
  needs.max_tokens = 1;
  needs.max_prompt = 1;
  NG_ASSIGN_OR_RETURN(const RunPlan plan, PlanRun(assembly, needs));
  NG_RETURN_IF_ERROR(CheckMemory(plan));
  load.hash = true;
  NG_ASSIGN_OR_RETURN(ModelWeights weights, LoadWeights(assembly.model, load));
  if (assembly.adapters.always.empty()) return weights;
  Executor& executor = *assembly.executor;
  NG_ASSIGN_OR_RETURN(
      const AdapterWeights adapters,
      LoadAdapters(assembly.adapters.Sets().front(), assembly.model, weights, executor));
  NG_RETURN_IF_ERROR(MergeAdapters(adapters, assembly.model, weights, executor));
  weights.hash = adapters.HashWith(weights.hash);
  return weights;
}

}  // namespace

absl::Status Engine::PackWeights(const std::string& path) const {
  return GuardedReading([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(state_->CheckFree());
    const Assembly& assembly = *state_->assembly;
    const Config& config = assembly.config();
    if (assembly.packed) {
      return UsageError(absl::StrCat(config.Describe("model.packed"), " = ",
                                     config.Text("model.packed"),
                                     ": the weights are packed already; leave it out"));
    }
    if (assembly.model.spec.has_far_tensor()) {
      return UsageError(absl::StrCat(config.Describe("cache.max_tokens"), " = ",
                                     config.Int("cache.max_tokens"),
                                     ": packed weights have RoPE's factors of short runs alone"));
    }
    if (assembly.model.random_weights) {
      return UsageError("random weights have no files to be packed");
    }
    NG_ASSIGN_OR_RETURN(ModelWeights weights, LoadOwn(assembly, state_->HowToLoad()));
    return WritePackedWeights(
        path, {config.Text("model.path"), config.Text("model.weights"), assembly.model, weights},
        state_->options.stop);
  });
}

absl::Status Engine::VerifyPackedWeights() const {
  return GuardedReading([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(state_->CheckFree());
    const Assembly& assembly = *state_->assembly;
    if (!assembly.packed) return UsageError("model.packed is not set; it names a packed file");
    NG_ASSIGN_OR_RETURN(ModelWeights weights, LoadOwn(assembly, state_->HowToLoad()));
    return assembly.packed->Verify(assembly.model, weights, state_->options.stop);
  });
}

}  // namespace ng
