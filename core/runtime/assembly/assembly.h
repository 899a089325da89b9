// Assembly: the parts of one engine, found, checked and fitted together before any weight is read.
#ifndef NG_CORE_RUNTIME_ASSEMBLY_ASSEMBLY_H_
#define NG_CORE_RUNTIME_ASSEMBLY_ASSEMBLY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/warnings.h"
#include "core/config/config.h"
#include "core/model/adapters/open_adapters.h"
#include "core/model/files/model_file.h"
#include "core/model/load/packed_weights.h"
#include "core/model/ops/state_store.h"
#include "core/model/ranks/rank_link.h"
#include "core/model/ranks/whole_model.h"
#include "core/model/weights/weight_types.h"
#include "core/plugin/cache_groups.h"
#include "core/plugin/loader.h"
#include "core/runtime/assembly/named_model.h"
#include "core/runtime/assembly/part_factory.h"
#include "core/runtime/assembly/request_samplers.h"
#include "core/runtime/watch/probe_chain.h"
#include "core/sampling/sampling.h"
#include "core/text/chat/template_metadata.h"
#include "ng/cache_capabilities.h"
#include "ng/chat_template.h"
#include "ng/drafter.h"
#include "ng/engine_options.h"
#include "ng/fabric.h"
#include "ng/run_plan.h"
#include "ng/tokenizer.h"

namespace ng {

// drafter.name of a run without drafts.
inline constexpr std::string_view kNoDrafter = "none";

// An option of a plugin that is not chosen, set at least as near as the choice is made (a config
// file may have some for what a command line chooses).
struct UnusedOption {
  std::string kind;
  std::string name;
  std::string text;  // "sampler.top_p.p (sampler.chain = greedy)"
};

// The config and the plugins that it names.
struct Selection {
  Config config;
  LoadedPlugin attention;
  LoadedPlugin cache;
  std::vector<LoadedPlugin> stages;  // in the order of sampler.chain
  std::vector<LoadedPlugin> probes;  // in the order of probe.chain
  std::optional<LoadedPlugin> drafter;
  LoadedPlugin fabric;
  std::vector<UnusedOption> unused_options;
  NameOfModel named;
  // What the plugins are looked up in, and every entry of the config: for PartFactory.
  PluginHost host;
  std::vector<ConfigEntry> entries;
  std::vector<ConfigEntry> opened;  // those among them that the user gave to Open
  std::vector<ConfigEntry> added;   // those among them that came later, by ChangeConfig
  // Every key with its declaration, plugin options included: what --help prints.
  std::vector<ConfigKey> keys;
};

// Reads the config twice: leniently for the plugins' names and directories, then strictly with the
// options of these plugins, and of any other that a key names. What comes with a model's name
// counts where the config says nothing. Errors: exit codes 2 and 4; 3 for a model that is known by
// a name.
absl::StatusOr<Selection> SelectPlugins(const EngineOptions& options);
// The same anew, with other added entries, and with what the model suggests to the sampler where
// the config says nothing. Reads no file. Errors: also exit code 3, for what the model suggests.
absl::StatusOr<Selection> SelectAgain(const Selection& before, std::vector<ConfigEntry> added,
                                      const SamplingSuggestions& suggestions);
// The same with the suggestions of the model that the config names; the model is not opened.
absl::StatusOr<Selection> SelectForModel(const EngineOptions& options);

// The plugins that the config's directories offer.
absl::StatusOr<PluginHost> ScanPlugins(const EngineOptions& options);
// What a run asks of the cache, of all layers alike. The window is each group's own.
struct RunCacheSpec : CacheSpec {
  bool windows_alone = false;  // layers with a sliding window may hold no more than the window
  int checkpoints = 0;  // of texts, beside the sequences: states and windows are kept for them

  StateStore::Room state_room() const { return {max_sequences, checkpoints}; }
};

struct RunCachePlan {
  CachePlan stores;               // of all groups together
  std::vector<CacheReads> reads;  // of a decode step, by the windows that the backend keeps to
};

// Of a plan for ranks that have some layers each (EngineOptions::plan_ranks): which rank it is for.
enum class PlannedRank { kMostWeights, kMostLayers };

struct Assembly {
  Selection selection;
  const std::atomic<bool>* stop = nullptr;  // EngineOptions::stop
  Warnings warnings;
  IsaLevel isa = IsaLevel::kScalar;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<RankLink> link;  // null: the run has one process
  // Of the ranks that compute a step together, where these are not all; null: all, or this one.
  std::unique_ptr<Fabric> group_fabric;
  std::unique_ptr<RankLink> group_link;
  RunAdapters adapters;
  ModelFile model;  // which reads some tensors of adapters
  // Where this rank has some of its layers.
  LayerSplit own_layers;
  std::optional<WholeModel> whole;
  std::optional<PackedWeights> packed;  // model.packed: where the weights are
  WeightTypes weight_types;
  std::unique_ptr<Tokenizer> tokenizer;       // null: the model runs with ids
  std::string tokenizer_path;                 //
  TemplateMetadata templates;                 // what the model's files say of conversations
  std::unique_ptr<ChatTemplate> chat;         // null: none
  std::vector<int32_t> stop_ids;              //
  std::vector<std::string_view> token_bytes;  // [vocab_size], borrowed from the tokenizer
  std::unique_ptr<PartFactory> parts;         // what plugins make parts of other plugins with
  std::vector<uint8_t> special;               // [vocab_size]: 1 for what is no plain token
  std::unique_ptr<AttentionBackend> attention;
  std::vector<PointShape> points;              // that the model has, as a token meets them
  std::vector<int> attention_layers;           // the layers that have attention, rising
  std::vector<AttentionSpec> attention_specs;  // what each of these asks of it
  bool sees_windows = true;                    // the backend keeps to the model's sliding windows
  std::vector<int> cache_layers;               // the layer of the cache that each of these reads
  bool shares_pages = false;                   // the cache shares what prompts begin with
  int64_t boundary_tokens = 0;                 // CachePlan::boundary_tokens
  bool wants_context = false;                  // CachePlan::mark
  std::unique_ptr<SamplerChain> chain;
  LoadedHead head;                        // what probes are given
  std::unique_ptr<ProbeChain> probes;     // empty: nobody looks
  std::vector<std::string> probe_titles;  // "probe.capture", of each
  std::unique_ptr<Drafter> drafter;       // null: no drafts
  // What edits the steps: name, version, options and hashes of the files read of each probe that
  // does. "none": nothing does.
  std::string edits = "none";
  // "generation_config.json's temperature 0.6, top_p 0.9 are not used"; empty: the chain does what
  // the model suggests, or it suggests nothing.
  std::string unused_sampling;

  const Config& config() const { return selection.config; }
  // Whether the first step reads the weights, layer by layer.
  bool ReadsInStep(const RunNeeds& needs) const;
  // Whether each worker keeps to a core.
  bool pins_threads() const { return config().Text("run.pin") == "cores"; }
  // What plugins are created with; `values` holds the plugin's options for as long as it is used.
  PluginContext Context(const std::vector<OptionValue>& values) const;
  // Whether a text may grow beyond what fits (run.on_full), and how many tokens the model is shown
  // at a time then; else the largest number there is.
  bool Recomputes() const;
  int64_t ContextTokens() const;
  // The model's sliding window where the backend does not implement it: a run must end within it.
  // 0: no such bound.
  int64_t bounding_window() const;
  // The most tokens of one sequence that a step of such a run feeds.
  int64_t StepTokens(const RunNeeds& needs) const;
  // The cache's spec for a run with these needs.
  RunCacheSpec CacheSpecFor(const RunNeeds& needs) const;
  // The layers that ask the same of a cache, and the spec of each group's store.
  std::vector<CacheGroupSpec> GroupsOf(const RunCacheSpec& all) const;
  // Whether a group holds no more than a window. Then a step may feed all.max_step_tokens only.
  bool HoldsWindows(const RunCacheSpec& all) const;
  // The checkpoints that a run with this cache has: cache.checkpoints, where it has any use of
  // them.
  int CheckpointsFor(const RunCacheSpec& all) const;
  // What the cache would reserve, with the backend's consent to read it. Errors: PluginError,
  // LimitError.
  absl::StatusOr<RunCachePlan> PlanCacheFor(const RunCacheSpec& spec) const;
  absl::StatusOr<std::unique_ptr<CacheGroups>> MakeCache(const RunCacheSpec& spec) const;
  // The most tokens of a sequence that a step drafts; 0: no drafts.
  int64_t gamma() const;
  // What a run with this cache asks of the drafter.
  DrafterSpec DrafterSpecFor(const RunCacheSpec& cache) const;
  // Why the config's runs draft nothing though they have a drafter; empty: they do.
  std::string_view WhyNoDrafts() const;
  // Makes the drafter that the config names, if any. Errors: PluginError where the model or the
  // cache cannot take back a token, UsageError without a cache; as CreateDrafter.
  absl::Status MakeDrafter();
  // Makes the fabric that the config names, and the link where it has several ranks. Errors: as
  // CreateFabric.
  absl::Status MakeFabric();
  // Finds this rank's group, and what of the model it computes. `plan_ranks` as in EngineOptions.
  // Errors: UsageError where the ranks do not make so many groups; as Fabric::Group.
  absl::Status FindGroup(int plan_ranks, PlannedRank planned);
  // Leaves of the model and its types the layers that this rank has.
  void KeepOwnLayers();
  // Of all layers.
  const ModelSpec& WholeSpec() const { return whole ? whole->spec : model.spec; }
  const WeightTypes& WholeTypes() const { return whole ? whole->types : weight_types; }
  // What this rank found while it was set up, or what another did: the same on all ranks. Where
  // nobody found anything, whether they are about to compute the same. `model`: what names the
  // weights. With one rank: as it came.
  absl::Status AgreeOnSetup(const absl::Status& own, const std::string& random_weights);
  // Whether several ranks can run this, in a program that says of itself if it can be some. Errors:
  // UsageError, PluginError.
  absl::Status CheckRanks(bool can_be_ranks) const;
  // What all ranks must have alike, from the config.
  std::string SharedSettings() const;
  int groups() const { return static_cast<int>(config().Int("fabric.groups")); }
  // Of the ranks that compute a step together; null: this one alone.
  RankLink* StepLink() const { return groups() > 1 ? group_link.get() : link.get(); }
  // EngineOptions::stop, or of several ranks that all of them have seen it.
  const std::atomic<bool>* StepStop() const {
    return StepLink() == nullptr ? stop : StepLink()->stopped();
  }
  // The needs with what the probes add to them.
  RunNeeds WithProbes(RunNeeds needs) const;
  // Whether a plugin with this option was made for another plugin.
  bool UsedByParts(const UnusedOption& option) const;
  // Decides what layers ask of the backend: the model's sliding window too where the backend
  // accepts it over this cache. Errors: PluginError where cache and backend cannot run the codecs,
  // with those that they can.
  absl::Status ChooseAttentionSpecs();

 private:
  // One that every store can plan for: support is asked before the prompts are known.
  RunCacheSpec SmallestCache() const;
  absl::StatusOr<CachePlan> PlanGroup(const CacheGroupSpec& group) const;
  // What the layers ask that read what the group holds.
  std::vector<AttentionSpec> ReadersOf(const CacheGroupSpec& group) const;
  // Whether the backend has the features that the cache needs.
  absl::Status CheckFeatures(const CacheFormat& format) const;
  // That queries before they are rotated are what meets the keys of the group.
  absl::Status CheckQueries(const CacheGroupSpec& group) const;
  // Whether cache and backend can run the codecs at all.
  absl::Status CheckCacheRuns();
};

// Fits everything together. Errors, in this order: config (2), plugins (4), model and tokenizer
// files (3), combinations that cannot run (4).
absl::StatusOr<std::unique_ptr<Assembly>> Assemble(const EngineOptions& options,
                                                   PlannedRank planned = PlannedRank::kMostWeights);

// Makes the sampler chain that a selection over this assembly names. `stop`: PluginContext's; null:
// the assembly's. Errors: as CreateSampler.
absl::StatusOr<std::unique_ptr<SamplerChain>> MakeSamplerChain(
    const Assembly& assembly, const Selection& selection, const std::atomic<bool>* stop = nullptr);
// Makes what chooses the tokens of a request with settings of its own (GenerateRequest::settings).
// `shared` and `stop` as RequestSamplers::Make. May run beside a step: of the assembly it changes
// nothing but `parts`, which is as it was afterwards. Errors: UsageError, PluginError.
absl::StatusOr<RequestSampler> MakeRequestSampler(std::span<const std::string> settings,
                                                  const std::shared_ptr<SamplerChain>& shared,
                                                  const RequestSamplers::Stop& stop,
                                                  Assembly& assembly);

// Makes the probes that the config names. `stop` as in EngineOptions. Errors: as CreateProbe.
absl::Status MakeProbes(const std::atomic<bool>* stop, Assembly& assembly);

// Changes config keys of an assembly that may be loaded already (Engine::Set): makes anew what
// depends on them. After an error all is as it was.
absl::Status ChangeConfig(std::span<const std::string> overrides, Assembly& assembly);
bool CanChange(std::string_view key);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_ASSEMBLY_ASSEMBLY_H_
