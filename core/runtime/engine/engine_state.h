// What an open engine holds, and what stands around every call from outside. Used by the files of
// class Engine: engine.cc, engine_text.cc, engine_steps.cc, engine_packing.cc, and of its
// runs.
#ifndef NG_CORE_RUNTIME_ENGINE_ENGINE_STATE_H_
#define NG_CORE_RUNTIME_ENGINE_ENGINE_STATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/machine/float_environment.h"
#include "core/model/decoder/decoder.h"
#include "core/plugin/cache_groups.h"
#include "core/runtime/assembly/assembly.h"
#include "core/runtime/loop/caught.h"
#include "core/runtime/loop/checkpoints.h"
#include "core/runtime/loop/generate.h"
#include "core/runtime/loop/speculation.h"
#include "core/snapshot/cache_snapshot.h"
#include "ng/engine.h"
#include "ng/memory_reserve.h"

namespace ng {

// Around every call from outside: the engine's one safety catch, and the floating point environment
// of the bit contract.
template <typename Call>
auto Guarded(Call&& call) -> decltype(call()) {
  const DefaultFloatEnvironment environment;
  return Caught(call);
}

// The same around calls that read files: what they parse is let go with memory kept back for it.
template <typename Call>
auto GuardedReading(Call&& call) -> decltype(call()) {
  // Above what the destructor of the largest vocabulary's JSON takes.
  constexpr size_t kReservedBytes = size_t{8} << 20;
  return Guarded([&] {
    const MemoryReserve reserve(kReservedBytes, MemoryReserve::For::kUnwinding);
    return call();
  });
}

struct Engine::State {
  State(const EngineOptions& options, std::unique_ptr<Assembly> assembly, double open_s)
      : options(options), assembly(std::move(assembly)), load_s(open_s) {}
  // Decoder, samplers, attention, then cache: the order that plugins may rely on.
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const ModelShape& shape() const { return assembly->model.spec.shape; }
  // RuntimeError before Load.
  absl::Status CheckLoaded() const;
  // RuntimeError where Load was not told of RunNeeds::identity.
  absl::Status CheckIdentified() const;
  // The loaded cache's. RuntimeError where Load was not told of them.
  absl::StatusOr<const CacheSnapshots*> CheckedSnapshots() const;
  // RuntimeError while a Generation or a Session has the engine.
  absl::Status CheckFree() const;
  // The UsageError of saving a sequence that was fed while a probe of AddProbe edited.
  static absl::Status NoSnapshot(const std::string& path);
  // Of the config, for the generate loop.
  GenerateSettings Settings() const;
  // Of the assembly's model, without the hash.
  LoadWeightsOptions HowToLoad() const;
  // Engine::Load, of this rank.
  absl::Status LoadOwn(const RunNeeds& asked);
  // What follows where it has some of the layers, and the run is to be identified.
  absl::Status HashAllLayers();
  // Runs a step over the new tokens that `step` has, in pieces where the cache takes no more at
  // once.
  absl::StatusOr<StepLogits> Feed();
  // The most tokens of a sequence in a step that begins behind `begin` of them.
  int64_t StepRoom(SequenceId sequence, int64_t begin) const;
  // All weights, or those that no step reads (`loader`).
  absl::StatusOr<ModelWeights> ReadWeights(const LoadWeightsOptions& load, bool in_step);
  // Reads the adapters, if there are any, for these weights.
  absl::Status ReadAdapters(ModelWeights* weights);
  // The hash of the model's weights together with that of the adapters of all requests.
  uint64_t WithAdapters(uint64_t hash) const;
  // Tells the probes that the run has ended.
  absl::Status EndRun(bool failed);
  absl::StatusOr<std::vector<IdentityField>> Identity() const;  // as Engine's

  EngineOptions options;
  std::unique_ptr<Assembly> assembly;
  RowHashes row_hashes;  // until HashAllLayers
  // The rest is there after Load.
  std::unique_ptr<CacheGroups> cache;
  StateStore states;
  std::unique_ptr<LayerLoader> loader;  // null: Load has read all weights
  // The run's adapters, then for each that requests may name the run's with it; empty: there are
  // none.
  std::vector<AdapterWeights> adapters;
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<Speculation> speculation;   // null: no drafts
  std::unique_ptr<CacheSnapshots> snapshots;  // null: Load was not asked for them
  std::unique_ptr<Checkpoints> checkpoints;   // null: pages are all that is shared, or nothing is
  std::vector<StepSequence> step;             // what Extend and DecodeStep feed
  std::vector<StepSequence> pieces;           // of it
  int64_t step_tokens = 0;                    // the most of one sequence in a step; 0: any
  bool cuts_steps = false;                    // the cache changes behind some tokens
  int max_sequences = 0;
  int64_t max_tokens = 0;  // of each
  StepCost cost;
  std::optional<uint64_t> weights_hash;  // empty: Load was not asked for it
  double load_s = 0.0;                   // Open and Load
  bool taken = false;                    // a Run exists
  std::set<SequenceId> edited;           // open, and fed while a probe of AddProbe edited

  struct Run;  // runtime/engine/engine_run.h
  // Runs all requests, on one group of ranks or dealt to several.
  absl::StatusOr<std::vector<Completion>> RunAll(Run& run,
                                                 std::span<const GenerateRequest> requests);
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_ENGINE_ENGINE_STATE_H_
