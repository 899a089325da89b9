#include "ng/engine.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/model/load/load_weights.h"
#include "core/runtime/engine/engine_run.h"
#include "core/runtime/groups/dealt_run.h"
#include "core/runtime/plan/cache_identity.h"
#include "core/runtime/plan/describe.h"
#include "core/runtime/plan/fingerprint.h"
#include "core/runtime/plan/planned_run.h"
#include "ng/files.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

RunNeeds Needs(std::span<const GenerateRequest> requests) {
  RunNeeds needs;
  needs.max_sequences = std::max(1, static_cast<int>(requests.size()));
  for (const GenerateRequest& request : requests) {
    const auto prompt_len = static_cast<int64_t>(request.prompt_ids.size());
    needs.max_tokens =
        std::max(needs.max_tokens, prompt_len + std::max<int64_t>(0, request.max_new_tokens));
    needs.max_prompt = std::max(needs.max_prompt, prompt_len);
    needs.snapshots |= !request.load_cache.empty() || !request.save_cache.empty();
    needs.prompt_logprobs |= request.prompt_top_logprobs >= 0;
  }
  return needs;
}

std::string_view StopReasonName(StopReason reason) {
  switch (reason) {
    case StopReason::kEot:
      return "eot";
    case StopReason::kStage:
      return "stage";
    case StopReason::kStopText:
      return "stop_text";
    case StopReason::kMaxNewTokens:
      return "max_new_tokens";
    case StopReason::kInterrupted:
      return "interrupted";
    case StopReason::kError:
      return "error";
  }
  return "error";
}

Engine::State::~State() {
  speculation.reset();
  assembly->drafter.reset();
  assembly->probes.reset();
  checkpoints.reset();
  decoder.reset();
  assembly->chain.reset();
  assembly->attention.reset();
  cache.reset();
}

absl::Status Engine::State::CheckLoaded() const {
  if (decoder != nullptr) return absl::OkStatus();
  return RuntimeError("nothing is loaded; Load must have succeeded first");
}

absl::Status Engine::State::CheckIdentified() const {
  if (weights_hash) return absl::OkStatus();
  return RuntimeError("nothing was loaded to be identified; Load must be told of it");
}

absl::StatusOr<const CacheSnapshots*> Engine::State::CheckedSnapshots() const {
  NG_RETURN_IF_ERROR(CheckLoaded());
  if (snapshots != nullptr) return snapshots.get();
  return RuntimeError("nothing was loaded for snapshots; Load must be told of them");
}

int64_t Engine::State::StepRoom(SequenceId sequence, int64_t begin) const {
  const int64_t most = decoder->ToBoundary(sequence, begin);
  return step_tokens > 0 ? std::min(most, step_tokens) : most;
}

absl::StatusOr<StepLogits> Engine::State::Feed() {
  StepBatch batch;
  batch.stop = assembly->StepStop();
  if (!assembly->probes->empty()) batch.observer = assembly->probes.get();
  if (assembly->probes->edits_while_open()) {
    for (const StepSequence& sequence : step) edited.insert(sequence.sequence);
  }
  // All but the last pieces, without logits.
  while (step_tokens > 0 || cuts_steps) {
    pieces.clear();
    for (StepSequence& sequence : step) {
      const int64_t most = StepRoom(sequence.sequence, sequence.start_pos);
      if (std::ssize(sequence.tokens) <= most) continue;
      StepSequence& piece = pieces.emplace_back(sequence);
      const auto n = static_cast<size_t>(most);
      piece.tokens = sequence.tokens.first(n);
      piece.n_logit_rows = 0;
      sequence.tokens = sequence.tokens.subspan(n);
      sequence.start_pos += most;
    }
    if (pieces.empty()) break;
    batch.sequences = pieces;
    NG_RETURN_IF_ERROR(decoder->Forward(batch));
  }
  batch.sequences = step;
  NG_RETURN_IF_ERROR(decoder->Forward(batch));
  return StepLogits{decoder->logits()};
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& options) {
  return GuardedReading([&]() -> absl::StatusOr<std::unique_ptr<Engine>> {
    const Clock::time_point start = Clock::now();
    NG_ASSIGN_OR_RETURN(std::unique_ptr<Assembly> assembly, Assemble(options));
    return std::unique_ptr<Engine>(
        new Engine(std::make_unique<State>(options, std::move(assembly), SecondsSince(start))));
  });
}

absl::StatusOr<Config> Engine::ReadConfig(const EngineOptions& options) {
  return Guarded([&]() -> absl::StatusOr<Config> {
    NG_ASSIGN_OR_RETURN(Selection selection, SelectForModel(options));
    return std::move(selection.config);
  });
}

absl::StatusOr<PluginHost> Engine::FindPlugins(const EngineOptions& options) {
  return Guarded([&] { return ScanPlugins(options); });
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

absl::Status Engine::State::EndRun(bool failed) {
  if (assembly->probes->empty()) return absl::OkStatus();
  const std::string config = assembly->config().ToIni();
  ProbeRun run = {.failed = failed, .config = config, .identity = {}};
  std::vector<IdentityField> identity;
  if (assembly->probes->identity()) {
    NG_ASSIGN_OR_RETURN(identity, Identity());
    run.identity = identity;
  }
  return assembly->probes->EndRun(run);
}

absl::StatusOr<std::vector<IdentityField>> Engine::State::Identity() const {
  NG_RETURN_IF_ERROR(CheckIdentified());
  std::vector<IdentityField> fields;
  for (CacheField& field : CacheIdentity(*assembly, weights_hash)) {
    fields.push_back({std::move(field.name), std::move(field.value)});
  }
  return fields;
}

absl::Status Engine::EndRun() {
  return Guarded([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(state_->CheckLoaded());
    return state_->EndRun(/*failed=*/false);
  });
}

LoadWeightsOptions Engine::State::HowToLoad() const {
  LoadWeightsOptions load;
  load.types = assembly->weight_types;
  load.executor = assembly->executor.get();
  load.own_shares = assembly->pins_threads();
  load.stop = options.stop;
  if (options.progress) {
    load.progress = [this](int64_t done, int64_t total) {
      options.progress({"load", done, total});
    };
  }
  return load;
}

absl::Status Engine::Load(const RunNeeds& asked) {
  NG_RETURN_IF_ERROR(Agree(state_->LoadOwn(asked)));
  if (!state_->assembly->whole || !asked.identity) return absl::OkStatus();
  return Agree(state_->HashAllLayers());
}

absl::Status Engine::State::HashAllLayers() {
  return GuardedReading([&]() -> absl::Status {
    NG_ASSIGN_OR_RETURN(weights_hash,
                        HashOfAllLayers(*assembly->whole, row_hashes, *assembly->model.source,
                                        *assembly->StepLink()));
    weights_hash = WithAdapters(*weights_hash);
    row_hashes.clear();
    return absl::OkStatus();
  });
}

absl::Status Engine::Agree(const absl::Status& own) {
  RankLink* const link = state_->assembly->link.get();
  return link == nullptr ? own : Guarded([&] { return link->Agree(own); });
}

absl::Status Engine::ShareText(std::string* text) {
  RankLink* const link = state_->assembly->link.get();
  return link == nullptr ? absl::OkStatus() : Guarded([&] { return link->Share(text); });
}

absl::Status Engine::State::LoadOwn(const RunNeeds& asked) {
  return GuardedReading([&]() -> absl::Status {
    State& state = *this;
    NG_RETURN_IF_ERROR(state.CheckFree());
    Assembly& assembly = *state.assembly;
    if (state.options.plan_ranks > 1) return RuntimeError("this engine was opened to plan only");
    if (assembly.link != nullptr && asked.snapshots) {
      return UsageError(absl::StrCat("fabric.name = ", assembly.config().Text("fabric.name"),
                                     ": a cache of several ranks is not loaded or saved"));
    }
    const RunNeeds needs = assembly.WithProbes(asked);
    const Clock::time_point start = Clock::now();
    NG_ASSIGN_OR_RETURN(const RunPlan plan, PlanRun(assembly, needs));
    NG_RETURN_IF_ERROR(CheckMemory(plan));
    const RunCacheSpec spec = assembly.CacheSpecFor(needs);
    const LoadedPlugin& plugin = assembly.selection.cache;
    const bool images = plan.cache.image_tile_bytes > 0 || plan.cache.sequence_images;
    if (needs.snapshots && !images) {
      return PluginError(absl::StrCat(plugin.Describe(), ": ",
                                      plan.cache.approximate ? "is approximate and " : "",
                                      "keeps no snapshots; contiguous, paged and budget do"));
    }
    if (plan.cache.approximate) assembly.warnings.Add(ApproximateText(plugin));
    assembly.head.Set(nullptr);
    state.checkpoints.reset();
    state.edited.clear();
    state.decoder.reset();
    state.loader.reset();
    state.adapters.clear();
    state.snapshots.reset();
    state.weights_hash.reset();
    state.cache.reset();
    NG_ASSIGN_OR_RETURN(state.cache, assembly.MakeCache(spec));
    NG_ASSIGN_OR_RETURN(state.states, StateStore::Make(assembly.model.spec, spec.state_room()));
    if (spec.checkpoints > 0) {
      state.checkpoints = std::make_unique<Checkpoints>(*state.cache, state.states,
                                                        spec.checkpoints, spec.max_tokens);
    }

    LoadWeightsOptions load = state.HowToLoad();
    load.hash = needs.snapshots || needs.identity;
    state.row_hashes.clear();
    if (assembly.whole && load.hash) load.row_hashes = &state.row_hashes;
    NG_ASSIGN_OR_RETURN(ModelWeights weights, state.ReadWeights(load, plan.read_in_step));
    NG_RETURN_IF_ERROR(state.ReadAdapters(&weights));
    if (load.hash) state.weights_hash = weights.hash;
    if (needs.snapshots) {
      state.snapshots = std::make_unique<CacheSnapshots>(
          CacheSnapshots::Stores{*state.cache, state.states}, CacheIdentity(assembly, weights.hash),
          state.options.stop);
    }
    std::vector<AttentionSpec> specs = assembly.attention_specs;
    SetSinks(assembly.model.spec, weights, specs);
    NG_ASSIGN_OR_RETURN(LayerAttention attention, LayerAttention::Make(*assembly.attention, specs));
    DecoderParts parts;
    parts.executor = assembly.executor.get();
    parts.kernels = &Kernels(assembly.isa);
    parts.cache = state.cache.get();
    parts.states = &state.states;
    parts.link = assembly.StepLink();
    parts.loader = state.loader.get();
    parts.adapters = state.adapters;
    parts.pieces = static_cast<int>(assembly.config().Int("fabric.pieces"));
    parts.max_tokens = spec.max_tokens;
    state.decoder = std::make_unique<Decoder>(assembly.model.spec, std::move(weights),
                                              std::move(attention), parts);
    assembly.head.Set(state.decoder.get());
    state.speculation.reset();
    if (assembly.drafter != nullptr) {
      const DrafterSpec drafts = assembly.DrafterSpecFor(spec);
      NG_RETURN_IF_ERROR(assembly.drafter->Load(drafts));
      state.speculation = std::make_unique<Speculation>(
          *assembly.drafter, drafts, assembly.config().Bool("drafter.adapt"), assembly.StepLink());
    }
    state.max_sequences = spec.max_sequences;
    state.max_tokens = spec.max_tokens;
    state.step_tokens = plan.held.empty() ? 0 : spec.max_step_tokens;
    state.cuts_steps = plan.cache.boundary_tokens > 0 || plan.cache.mark;
    state.cost = plan.step;
    state.load_s += SecondsSince(start);
    return absl::OkStatus();
  });
}

absl::StatusOr<ModelWeights> Engine::State::ReadWeights(const LoadWeightsOptions& load,
                                                        bool in_step) {
  if (assembly->packed) return assembly->packed->Map(assembly->model, load.types);
  if (!in_step) return LoadWeights(assembly->model, load);
  loader = std::make_unique<LayerLoader>(assembly->model, load);
  return loader->Begin();
}

absl::Status Engine::State::ReadAdapters(ModelWeights* weights) {
  for (const std::vector<const ScaledAdapter*>& set : assembly->adapters.Sets()) {
    NG_ASSIGN_OR_RETURN(AdapterWeights read,
                        LoadAdapters(set, assembly->model, *weights, *assembly->executor));
    adapters.push_back(std::move(read));
  }
  weights->hash = WithAdapters(weights->hash);
  return absl::OkStatus();
}

uint64_t Engine::State::WithAdapters(uint64_t hash) const {
  if (assembly->adapters.always.empty()) return hash;
  return adapters.front().HashWith(hash);
}

absl::Status Engine::Set(std::span<const std::string> overrides) {
  return GuardedReading([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(state_->CheckFree());
    return ChangeConfig(overrides, *state_->assembly);
  });
}

bool Engine::CanSet(std::string_view key) { return CanChange(key); }

const Config& Engine::config() const { return state_->assembly->config(); }
const ModelShape& Engine::model_shape() const { return state_->shape(); }
IsaLevel Engine::isa() const { return state_->assembly->isa; }
int Engine::rank() const { return state_->assembly->fabric->rank(); }
int Engine::ranks() const { return state_->assembly->fabric->size(); }
int Engine::groups() const { return state_->assembly->groups(); }
int Engine::threads() const { return state_->assembly->executor->threads(); }
std::span<const int> Engine::attention_layers() const { return state_->assembly->attention_layers; }
int64_t Engine::default_max_new_tokens() const { return config().Int("run.max_new_tokens"); }
std::string_view Engine::family() const { return state_->assembly->model.spec.family; }
std::span<const int32_t> Engine::stop_ids() const { return state_->assembly->stop_ids; }
const std::vector<PointShape>& Engine::points() const { return state_->assembly->points; }
const std::string& Engine::unused_sampling() const { return state_->assembly->unused_sampling; }

std::vector<NamedOutput> Engine::probe_outputs() const {
  const Assembly& assembly = *state_->assembly;
  std::vector<NamedOutput> outputs;
  for (size_t i = 0; i < assembly.probe_titles.size(); ++i) {
    for (const std::string& path : assembly.probes->use(i).writes) {
      outputs.push_back({assembly.probe_titles[i].c_str(), path});
    }
  }
  return outputs;
}

absl::StatusOr<RunPlan> Engine::Plan(const RunNeeds& needs) const {
  return Guarded([&]() -> absl::StatusOr<RunPlan> {
    const Assembly& assembly = *state_->assembly;
    NG_ASSIGN_OR_RETURN(RunPlan plan, PlanRun(assembly, assembly.WithProbes(needs)));
    if (state_->options.plan_ranks <= 1 || !plan.by_layers) return plan;
    // A rank that has less of the weights may have more layers, and so more of the cache.
    EngineOptions options = state_->options;
    options.warning = nullptr;
    NG_ASSIGN_OR_RETURN(const auto other, Assemble(options, PlannedRank::kMostLayers));
    NG_ASSIGN_OR_RETURN(RunPlan of_other, PlanRun(*other, other->WithProbes(needs)));
    of_other.program_bytes = plan.program_bytes;  // of one of them
    return of_other.needed_bytes() > plan.needed_bytes() ? of_other : plan;
  });
}

absl::StatusOr<std::string> Engine::Describe(const RunNeeds& needs, Detail detail) const {
  return Guarded([&]() -> absl::StatusOr<std::string> {
    const Assembly& assembly = *state_->assembly;
    NG_ASSIGN_OR_RETURN(const RunPlan plan, PlanRun(assembly, assembly.WithProbes(needs)));
    return DescribeRun(assembly, plan, detail);
  });
}

absl::Status Engine::CheckRequest(const GenerateRequest& request) const {
  return Guarded([&] { return ng::CheckRequest(*state_->assembly, request); });
}

absl::StatusOr<RunFingerprint> Engine::Fingerprint() const {
  return Guarded([&]() -> absl::StatusOr<RunFingerprint> {
    NG_RETURN_IF_ERROR(state_->CheckIdentified());
    return FingerprintOf(*state_->assembly, *state_->weights_hash);
  });
}

absl::StatusOr<std::vector<IdentityField>> Engine::Identity() const {
  return Guarded([&] { return state_->Identity(); });
}

absl::StatusOr<StepCost> Engine::CostOfStep() const {
  return Guarded([&]() -> absl::StatusOr<StepCost> {
    NG_RETURN_IF_ERROR(state_->CheckLoaded());
    return state_->cost;
  });
}

absl::StatusOr<std::vector<Statistic>> Engine::CacheStatistics() const {
  return Guarded([&]() -> absl::StatusOr<std::vector<Statistic>> {
    Statistics* const statistics =
        state_->cache == nullptr ? nullptr : CapabilityOf<Statistics>(*state_->cache);
    if (statistics == nullptr) return std::vector<Statistic>();
    return statistics->Values();
  });
}

// "attention differ: ..." for each part that has something to say.
absl::StatusOr<std::vector<std::string>> Engine::Reports() const {
  return Guarded([&]() -> absl::StatusOr<std::vector<std::string>> {
    const Assembly& assembly = *state_->assembly;
    const Selection& selection = assembly.selection;
    std::vector<std::string> reports;
    const auto add = [&](const PluginDescriptor& plugin, const std::string& report) {
      if (report.empty()) return;
      reports.push_back(absl::StrCat(plugin.kind, " ", plugin.name, ": ", report));
    };
    add(*selection.attention.descriptor, assembly.attention->Report());
    if (state_->cache != nullptr) add(*selection.cache.descriptor, state_->cache->Report());
    for (size_t i = 0; i < selection.stages.size(); ++i) {
      add(*selection.stages[i].descriptor, assembly.chain->ReportOf(i));
    }
    for (size_t i = 0; i < selection.probes.size(); ++i) {
      add(*selection.probes[i].descriptor, assembly.probes->ReportOf(i));
    }
    add(*selection.fabric.descriptor, assembly.fabric->Report());
    if (state_->speculation != nullptr) {
      add(*selection.drafter->descriptor, state_->speculation->Report());
    }
    return reports;
  });
}

absl::StatusOr<std::vector<Completion>> Engine::State::RunAll(
    Run& run, std::span<const GenerateRequest> requests) {
  if (assembly->groups() == 1) {
    return ng::Generate(run.parts, run.settings, requests, run.options);
  }
  return GenerateDealt(run.parts, run.settings, requests, run.options,
                       {*assembly->link, assembly->group_link.get(), assembly->groups()});
}

absl::StatusOr<std::vector<Completion>> Engine::Generate(std::span<const GenerateRequest> requests,
                                                         const GenerateOptions& options) {
  absl::StatusOr<std::vector<Completion>> own =
      GuardedReading([&]() -> absl::StatusOr<std::vector<Completion>> {
        NG_RETURN_IF_ERROR(state_->CheckLoaded());
        NG_RETURN_IF_ERROR(state_->CheckFree());
        State::Run run(*state_, options);
        for (const GenerateRequest& request : requests) NG_RETURN_IF_ERROR(run.Check(request));
        NG_RETURN_IF_ERROR(run.CheckOptions());
        absl::StatusOr<std::vector<Completion>> done = state_->RunAll(run, requests);
        const absl::Status ended = run.End(done.status());
        if (!ended.ok()) return ended;
        return done;
      });
  NG_RETURN_IF_ERROR(Agree(own.status()));
  return own;
}

}  // namespace ng
