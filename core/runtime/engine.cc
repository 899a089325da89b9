#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "core/machine/float_environment.h"
#include "core/model/decoder.h"
#include "core/model/weights.h"
#include "core/plugin/guarded_cache.h"
#include "core/runtime/assembly.h"
#include "core/runtime/cache_identity.h"
#include "core/runtime/caught.h"
#include "core/runtime/describe.h"
#include "core/runtime/generate.h"
#include "core/runtime/request_checks.h"
#include "core/runtime/run_plan.h"
#include "core/snapshot/cache_snapshot.h"
#include "ng/engine.h"
#include "ng/memory_reserve.h"
#include "ng/process_memory.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Above what the destructor of the largest vocabulary's JSON takes.
constexpr size_t kReservedBytes = size_t{8} << 20;

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
  return Guarded([&] {
    const MemoryReserve reserve(kReservedBytes, MemoryReserve::For::kUnwinding);
    return call();
  });
}

}  // namespace

class Engine::Impl {
 public:
  Impl(const EngineOptions& options, std::unique_ptr<Assembly> assembly, double open_s)
      : options_(options), assembly_(std::move(assembly)), load_s_(open_s) {}

  // Samplers, attention, then cache: the order that plugins may rely on.
  ~Impl() {
    decoder_.reset();
    assembly_->chain.reset();
    assembly_->attention.reset();
    cache_.reset();
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const Assembly& assembly() const { return *assembly_; }
  const ModelSpec& spec() const { return assembly_->model.spec; }
  const ModelShape& shape() const { return spec().shape; }
  LanguageModel* model() const { return decoder_.get(); }

  // The ids of a prompt from `encode`, which is told how many are of use at all.
  using EncodeMost = absl::FunctionRef<absl::StatusOr<std::vector<int32_t>>(int64_t most)>;
  absl::StatusOr<std::vector<int32_t>> Fitting(EncodeMost encode) const;
  absl::StatusOr<StepCost> CostOfStep() const;
  absl::StatusOr<std::vector<std::string>> Reports() const;
  absl::StatusOr<std::vector<Statistic>> CacheStatistics() const;
  absl::Status Load(const RunNeeds& needs);
  absl::Status CheckLoaded() const;
  absl::StatusOr<std::vector<Completion>> Generate(std::span<const GenerateRequest> requests,
                                                   const GenerateOptions& options);
  // Appends each sequence's tokens, at least one.
  absl::StatusOr<StepLogits> Extend(std::span<const SequenceId> sequences,
                                    std::span<const std::vector<int32_t>> tokens, LogitRows rows);
  // An empty step to fill and Feed; the same memory every time.
  std::vector<StepSequence>& NewStep() {
    step_.clear();
    return step_;
  }
  // Runs one step over the sequences' new tokens and gives the logits asked for.
  absl::StatusOr<StepLogits> Feed(std::span<const StepSequence> sequences);
  // Those of the loaded model's cache.
  absl::StatusOr<const CacheSnapshots*> snapshots() const;
  absl::StatusOr<LoadedSequence> LoadSequence(const std::string& path, int64_t capacity);

 private:
  EngineOptions options_;
  std::unique_ptr<Assembly> assembly_;
  std::unique_ptr<GuardedCache> cache_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<CacheSnapshots> snapshots_;  // null: Load was not asked for them
  std::vector<StepSequence> step_;
  int max_sequences_ = 0;
  StepCost cost_;
  double load_s_ = 0.0;
};

RunNeeds Needs(std::span<const GenerateRequest> requests) {
  RunNeeds needs;
  needs.max_sequences = std::max(1, static_cast<int>(requests.size()));
  for (const GenerateRequest& request : requests) {
    const auto prompt_len = static_cast<int64_t>(request.prompt_ids.size());
    needs.max_tokens =
        std::max(needs.max_tokens, prompt_len + std::max<int64_t>(0, request.max_new_tokens));
    needs.max_prompt = std::max(needs.max_prompt, prompt_len);
    needs.snapshots |= !request.load_cache.empty() || !request.save_cache.empty();
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

absl::Status Engine::Impl::Load(const RunNeeds& needs) {
  const Clock::time_point start = Clock::now();
  NG_ASSIGN_OR_RETURN(const RunPlan plan, PlanRun(*assembly_, needs));
  NG_RETURN_IF_ERROR(CheckMemory(plan));
  const CacheSpec spec = assembly_->CacheSpecFor(needs);
  const LoadedPlugin& plugin = assembly_->selection.cache;
  const std::vector<OptionValue> values =
      PluginValues(assembly_->config(), "cache", plugin.descriptor->name);
  if (needs.snapshots && plan.cache.image_tile_bytes == 0) {
    return PluginError(absl::StrCat(plugin.Describe(), ": ",
                                    plan.cache.approximate ? "is approximate and " : "",
                                    "keeps no snapshots; contiguous and paged do"));
  }
  if (plan.cache.approximate) assembly_->warnings.Add(ApproximateText(plugin));
  decoder_.reset();
  snapshots_.reset();
  cache_.reset();
  NG_ASSIGN_OR_RETURN(cache_, CreateCache(plugin, assembly_->Context(values), spec));

  LoadWeightsOptions load;
  load.types = assembly_->weight_types;
  load.executor = assembly_->executor.get();
  load.stop = options_.stop;
  load.hash = needs.snapshots;
  if (options_.progress) {
    load.progress = [this](int64_t done, int64_t total) {
      options_.progress({"load", done, total});
    };
  }
  NG_ASSIGN_OR_RETURN(ModelWeights weights, LoadWeights(assembly_->model, load));
  if (needs.snapshots) {
    snapshots_ = std::make_unique<CacheSnapshots>(
        *cache_, spec.n_layers, CacheIdentity(*assembly_, weights.hash), options_.stop);
  }
  NG_ASSIGN_OR_RETURN(LayerAttention attention,
                      LayerAttention::Make(*assembly_->attention, assembly_->attention_specs));
  DecoderParts parts;
  parts.executor = assembly_->executor.get();
  parts.kernels = &Kernels(assembly_->isa);
  parts.cache = cache_.get();
  parts.max_tokens = spec.max_tokens;
  decoder_ = std::make_unique<Decoder>(assembly_->model.spec, std::move(weights),
                                       std::move(attention), parts);
  max_sequences_ = spec.max_sequences;
  cost_ = plan.step;
  load_s_ += SecondsSince(start);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Statistic>> Engine::Impl::CacheStatistics() const {
  Statistics* const statistics = cache_ == nullptr ? nullptr : CapabilityOf<Statistics>(*cache_);
  if (statistics == nullptr) return std::vector<Statistic>();
  return statistics->Values();
}

absl::Status Engine::Impl::CheckLoaded() const {
  if (decoder_ != nullptr) return absl::OkStatus();
  return RuntimeError("nothing is loaded; Load must have succeeded first");
}

absl::StatusOr<std::vector<Completion>> Engine::Impl::Generate(
    std::span<const GenerateRequest> requests, const GenerateOptions& options) {
  NG_RETURN_IF_ERROR(CheckLoaded());
  GenerateParts parts{*decoder_, *assembly_->chain};
  for (const GenerateRequest& request : requests) {
    NG_RETURN_IF_ERROR(ng::CheckRequest(*assembly_, request));
    NG_RETURN_IF_ERROR(CheckKept(*assembly_, request, options));
    NG_RETURN_IF_ERROR(CheckSequence(*decoder_, request));
    if (request.load_cache.empty() && request.save_cache.empty()) continue;
    NG_ASSIGN_OR_RETURN(parts.snapshots, snapshots());
    if (request.load_cache.empty()) continue;
    NG_RETURN_IF_ERROR(parts.snapshots->Open(request.load_cache).status());
  }
  NG_RETURN_IF_ERROR(CheckTraced(shape(), options));
  const Config& config = assembly_->config();
  GenerateSettings settings;
  settings.stop_ids = assembly_->stop_ids;
  settings.seed = config.Int("sampler.seed");
  settings.use_cache = config.Bool("run.use_cache");
  settings.prefill_chunk = config.Int("run.prefill_chunk");
  settings.context = assembly_->ContextTokens();
  settings.max_sequences = max_sequences_;
  settings.load_s = load_s_;
  settings.stop = options_.stop;
  settings.progress = options_.progress;
  settings.cache_and_attention = absl::StrCat(assembly_->selection.cache.Describe(), " with ",
                                              assembly_->selection.attention.Describe());
  absl::StatusOr<std::vector<Completion>> done = ng::Generate(parts, settings, requests, options);
  if (done.ok() && !cache_->fault().ok()) return cache_->fault();
  return done;
}

// "attention differ: ..." for each part that has something to say.
absl::StatusOr<std::vector<std::string>> Engine::Impl::Reports() const {
  std::vector<std::string> reports;
  const auto add = [&](const PluginDescriptor& plugin, const std::string& report) {
    if (report.empty()) return;
    reports.push_back(absl::StrCat(plugin.kind, " ", plugin.name, ": ", report));
  };
  add(*assembly_->selection.attention.descriptor, assembly_->attention->Report());
  if (cache_ != nullptr) add(*assembly_->selection.cache.descriptor, cache_->Report());
  for (size_t i = 0; i < assembly_->selection.stages.size(); ++i) {
    add(*assembly_->selection.stages[i].descriptor, assembly_->chain->ReportOf(i));
  }
  return reports;
}

absl::StatusOr<StepCost> Engine::Impl::CostOfStep() const {
  NG_RETURN_IF_ERROR(CheckLoaded());
  return cost_;
}

absl::StatusOr<StepLogits> Engine::Impl::Extend(std::span<const SequenceId> sequences,
                                                std::span<const std::vector<int32_t>> tokens,
                                                LogitRows rows) {
  NG_RETURN_IF_ERROR(CheckLoaded());
  if (sequences.size() != tokens.size()) {
    return UsageError(absl::StrCat("batch size mismatch: ", tokens.size(), " prompts for ",
                                   sequences.size(), " sequences"));
  }
  const int64_t t_max = shape().max_positions;
  std::vector<StepSequence>& step = NewStep();
  for (size_t i = 0; i < sequences.size(); ++i) {
    const int64_t length = decoder_->Length(sequences[i]);
    NG_RETURN_IF_ERROR(CheckPrompt(shape(), tokens[i]));
    const auto n_tokens = static_cast<int64_t>(tokens[i].size());
    if (t_max > 0) NG_RETURN_IF_ERROR(CheckCap(length + n_tokens, 0, t_max, "T_max"));
    NG_RETURN_IF_ERROR(CheckWindow(*assembly_, length + n_tokens, 0));
    step.push_back({sequences[i], length, tokens[i], rows == LogitRows::kAll ? n_tokens : 1});
  }
  return Feed(step);
}

absl::StatusOr<StepLogits> Engine::Impl::Feed(std::span<const StepSequence> sequences) {
  StepBatch batch;
  batch.sequences = sequences;
  batch.stop = options_.stop;
  NG_RETURN_IF_ERROR(decoder_->Forward(batch));
  return StepLogits{decoder_->logits()};
}

absl::StatusOr<const CacheSnapshots*> Engine::Impl::snapshots() const {
  NG_RETURN_IF_ERROR(CheckLoaded());
  if (snapshots_ != nullptr) return snapshots_.get();
  return RuntimeError("nothing was loaded for snapshots; Load must be told of them");
}

absl::StatusOr<LoadedSequence> Engine::Impl::LoadSequence(const std::string& path,
                                                          int64_t capacity) {
  NG_ASSIGN_OR_RETURN(const CacheSnapshots* const snapshots, this->snapshots());
  NG_ASSIGN_OR_RETURN(const CacheFile file, snapshots->Open(path));
  const std::vector<int32_t>& ids = file.header().ids;
  const absl::Status known = CheckIds(shape(), ids);
  if (!known.ok()) return ModelFileError(absl::StrCat(path, ": ", known.message()));
  NG_ASSIGN_OR_RETURN(const SequenceId sequence, decoder_->OpenSequence({}, capacity));
  const absl::Status loaded = snapshots->Load(file, std::ssize(ids), sequence);
  if (loaded.ok()) return LoadedSequence{sequence, ids};
  decoder_->CloseSequence(sequence);
  return loaded;
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& options) {
  return GuardedReading([&]() -> absl::StatusOr<std::unique_ptr<Engine>> {
    const Clock::time_point start = Clock::now();
    NG_ASSIGN_OR_RETURN(std::unique_ptr<Assembly> assembly, Assemble(options));
    return std::unique_ptr<Engine>(
        new Engine(std::make_unique<Impl>(options, std::move(assembly), SecondsSince(start))));
  });
}

absl::StatusOr<Config> Engine::ReadConfig(const EngineOptions& options) {
  return Guarded([&]() -> absl::StatusOr<Config> {
    NG_ASSIGN_OR_RETURN(Selection selection, SelectPlugins(options));
    return std::move(selection.config);
  });
}

absl::StatusOr<PluginHost> Engine::FindPlugins(const EngineOptions& options) {
  return Guarded([&] { return ScanPlugins(options); });
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

absl::Status Engine::Load(const RunNeeds& needs) {
  return GuardedReading([&] { return impl_->Load(needs); });
}

const Config& Engine::config() const { return impl_->assembly().config(); }
const ModelShape& Engine::model_shape() const { return impl_->shape(); }
IsaLevel Engine::isa() const { return impl_->assembly().isa; }
int Engine::threads() const { return impl_->assembly().executor->threads(); }
int64_t Engine::default_max_new_tokens() const { return config().Int("run.max_new_tokens"); }
std::span<const int32_t> Engine::stop_ids() const { return impl_->assembly().stop_ids; }
absl::StatusOr<std::vector<std::string>> Engine::Reports() const {
  return Guarded([&] { return impl_->Reports(); });
}
const std::string& Engine::unused_sampling() const { return impl_->assembly().unused_sampling; }

absl::StatusOr<RunPlan> Engine::Plan(const RunNeeds& needs) const {
  return Guarded([&] { return PlanRun(impl_->assembly(), needs); });
}

absl::StatusOr<std::string> Engine::Describe(const RunNeeds& needs) const {
  return Guarded([&]() -> absl::StatusOr<std::string> {
    NG_ASSIGN_OR_RETURN(const RunPlan plan, PlanRun(impl_->assembly(), needs));
    return DescribeRun(impl_->assembly(), plan);
  });
}

bool Engine::has_tokenizer() const { return impl_->assembly().tokenizer != nullptr; }

absl::StatusOr<std::vector<int32_t>> Engine::Impl::Fitting(EncodeMost encode) const {
  const PromptLimit limit = LimitOfPrompts(*assembly_);
  NG_ASSIGN_OR_RETURN(std::vector<int32_t> ids, encode(limit.most()));
  NG_RETURN_IF_ERROR(CheckPromptLength(limit, ids.size()));
  return ids;
}

absl::StatusOr<std::vector<int32_t>> Engine::Encode(std::string_view text,
                                                    const TokenizeOptions& options) const {
  return Guarded([&]() -> absl::StatusOr<std::vector<int32_t>> {
    const Assembly& assembly = impl_->assembly();
    if (!has_tokenizer()) {
      return UsageError(absl::StrCat("the model ", assembly.model.source->path(),
                                     " has no tokenizer; give ids, or tokenizer.path"));
    }
    EncodeOptions encode;
    encode.parse_special = options.parse_special;
    encode.add_special = assembly.tokenizer->knows_ends();
    if (!options.must_fit) return assembly.tokenizer->Encode(text, encode);
    return impl_->Fitting([&](int64_t most) {
      encode.most = most;
      return assembly.tokenizer->Encode(text, encode);
    });
  });
}

int64_t Engine::max_prompt_bytes() const {
  // Any text of this size is read: it is little, and spaces between words may come to no token.
  constexpr int64_t kAnyText = int64_t{16} << 20;
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  // Ids, their embeddings' rows and what a tokenizer needs of a part go beside the text.
  constexpr int64_t kShareOfMemory = 8;
  const int64_t in_memory = std::min(kMostBytes, AvailableMemory() / kShareOfMemory);
  const Tokenizer* const tokenizer = impl_->assembly().tokenizer.get();
  const int64_t most = LimitOfPrompts(impl_->assembly()).most();
  if (tokenizer == nullptr || most > kMostBytes / tokenizer->longest_token()) return in_memory;
  return std::min(in_memory, std::max(kAnyText, most * tokenizer->longest_token()));
}

absl::StatusOr<std::string> Engine::Decode(std::span<const int32_t> ids) const {
  return Guarded([&]() -> absl::StatusOr<std::string> {
    if (!has_tokenizer()) return UsageError("the model has no tokenizer");
    NG_RETURN_IF_ERROR(CheckIds(impl_->shape(), ids));
    std::string bytes;
    for (const int32_t id : ids) bytes += impl_->assembly().token_bytes[static_cast<size_t>(id)];
    return bytes;
  });
}

absl::StatusOr<std::vector<int32_t>> Engine::EncodeMessage(std::string_view message) const {
  return Guarded([&]() -> absl::StatusOr<std::vector<int32_t>> {
    const Assembly& assembly = impl_->assembly();
    if (assembly.chat == nullptr) return NoChatTemplate(assembly);
    return impl_->Fitting([&](int64_t most) {
      return assembly.chat->FirstTurn(config().Text("run.system"), message, most);
    });
  });
}

absl::StatusOr<std::vector<int32_t>> Engine::EncodeNextTurn(std::string_view message) const {
  return Guarded([&]() -> absl::StatusOr<std::vector<int32_t>> {
    const Assembly& assembly = impl_->assembly();
    if (assembly.chat == nullptr) return NoChatTemplate(assembly);
    return impl_->Fitting([&](int64_t most) { return assembly.chat->NextTurn(message, most); });
  });
}

absl::Status Engine::CheckRequest(const GenerateRequest& request) const {
  return Guarded([&] { return ng::CheckRequest(impl_->assembly(), request); });
}

absl::StatusOr<StepCost> Engine::CostOfStep() const {
  return Guarded([&] { return impl_->CostOfStep(); });
}

absl::StatusOr<std::vector<Statistic>> Engine::CacheStatistics() const {
  return Guarded([&] { return impl_->CacheStatistics(); });
}

absl::StatusOr<std::vector<Completion>> Engine::Generate(std::span<const GenerateRequest> requests,
                                                         const GenerateOptions& options) {
  return GuardedReading([&] { return impl_->Generate(requests, options); });
}

absl::StatusOr<SequenceId> Engine::OpenSequence(int64_t capacity) {
  return Guarded([&]() -> absl::StatusOr<SequenceId> {
    NG_RETURN_IF_ERROR(impl_->CheckLoaded());
    return impl_->model()->OpenSequence({}, capacity);
  });
}

void Engine::CloseSequence(SequenceId sequence) {
  if (impl_->model() != nullptr) impl_->model()->CloseSequence(sequence);
}

int64_t Engine::SequenceLength(SequenceId sequence) const {
  return impl_->model() == nullptr ? 0 : impl_->model()->Length(sequence);
}

absl::Status Engine::TruncateSequence(SequenceId sequence, int64_t length) {
  return Guarded([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(impl_->CheckLoaded());
    const int64_t held = impl_->model()->Length(sequence);
    if (length < 0 || length > held) {
      return UsageError(
          absl::StrCat("cannot truncate a sequence of ", held, " tokens to ", length));
    }
    return impl_->model()->Truncate(sequence, length);
  });
}

absl::Status Engine::SaveSequence(SequenceId sequence, std::span<const int32_t> ids,
                                  const std::string& path) {
  return Guarded([&]() -> absl::Status {
    NG_ASSIGN_OR_RETURN(const CacheSnapshots* const snapshots, impl_->snapshots());
    NG_RETURN_IF_ERROR(CheckPrompt(impl_->shape(), ids));
    const int64_t length = impl_->model()->Length(sequence);
    if (std::ssize(ids) == length) return snapshots->Save(sequence, ids, path);
    return UsageError(
        absl::StrCat(path, ": ", ids.size(), " ids for a sequence of ", length, " tokens"));
  });
}

absl::StatusOr<LoadedSequence> Engine::LoadSequence(const std::string& path, int64_t capacity) {
  return GuardedReading([&] { return impl_->LoadSequence(path, capacity); });
}

absl::StatusOr<StepLogits> Engine::Prefill(std::span<const SequenceId> sequences,
                                           std::span<const std::vector<int32_t>> prompts) {
  return Guarded([&]() -> absl::StatusOr<StepLogits> {
    NG_RETURN_IF_ERROR(impl_->CheckLoaded());
    for (size_t i = 0; i < sequences.size(); ++i) {
      const int64_t length = impl_->model()->Length(sequences[i]);
      if (length != 0) {
        return UsageError(absl::StrCat("cache must be empty (t=0) before prefill: sequence ", i,
                                       " holds t=", length));
      }
    }
    return impl_->Extend(sequences, prompts, LogitRows::kLast);
  });
}

absl::StatusOr<StepLogits> Engine::Extend(std::span<const SequenceId> sequences,
                                          std::span<const std::vector<int32_t>> tokens,
                                          LogitRows rows) {
  return Guarded([&] { return impl_->Extend(sequences, tokens, rows); });
}

absl::StatusOr<StepLogits> Engine::DecodeStep(std::span<const SequenceId> sequences,
                                              std::span<const int32_t> tokens) {
  return Guarded([&]() -> absl::StatusOr<StepLogits> {
    NG_RETURN_IF_ERROR(impl_->CheckLoaded());
    if (sequences.size() != tokens.size()) {
      return UsageError(absl::StrCat("batch size mismatch: ", tokens.size(), " tokens for ",
                                     sequences.size(),
                                     " sequences; decode takes exactly one each"));
    }
    const int64_t t_max = impl_->shape().max_positions;
    NG_RETURN_IF_ERROR(CheckIds(impl_->shape(), tokens));
    std::vector<StepSequence>& step = impl_->NewStep();
    for (size_t i = 0; i < sequences.size(); ++i) {
      const int64_t length = impl_->model()->Length(sequences[i]);
      const int64_t capacity = impl_->model()->Capacity(sequences[i]);
      if (t_max > 0 && length >= t_max) {
        return LimitError(absl::StrCat("exceeded T_max during generation: t=", length,
                                       " must be < T_max=", t_max));
      }
      NG_RETURN_IF_ERROR(CheckWindow(impl_->assembly(), length + 1, 0));
      if (length >= capacity) {
        return LimitError(
            absl::StrCat("cache overflow: t=", length, " must be < capacity=", capacity));
      }
      step.push_back({sequences[i], length, tokens.subspan(i, 1), 1});
    }
    return impl_->Feed(step);
  });
}

}  // namespace ng
