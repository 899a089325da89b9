#include "core/runtime/assembly/assembly.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/machine/cpus.h"
#include "core/machine/executor.h"
#include "core/model/load/file_types.h"
#include "core/runtime/assembly/model_defaults.h"
#include "core/text/chat/jinja_chat.h"
#include "core/text/chat/named_templates.h"
#include "core/text/chat/template_metadata.h"
#include "core/text/files/gguf_vocabulary.h"
#include "core/text/files/open_tokenizer.h"
#include "ng/spellings.h"

namespace ng {
namespace {

absl::StatusOr<ModelFile> OpenModelOf(const Config& config, const std::string& random_weights,
                                      KeyPolicy& keys) {
  if (random_weights.empty()) {
    if (!config.Text("model.path").empty()) return OpenModel(config.Text("model.path"), keys);
    return UsageError(
        "model.path is not set; it names a folder with config.json and "
        "model.safetensors, or a GGUF file");
  }
  for (const char* key : {"model.path", "model.packed", "tokenizer.path"}) {
    if (config.Text(key).empty()) continue;
    return UsageError(absl::StrCat(config.Describe(key), " = ", config.Text(key),
                                   ": must be empty when random weights are asked for (",
                                   random_weights, "); --", key, "= makes it so"));
  }
  return OpenRandomModel(random_weights, keys);
}

// A model with other factors of RoPE for long runs has them where sequences may be so long. It is
// the config that says so, not a prompt: the bits of a run do not depend on what else is asked.
absl::Status ChooseLength(const Config& config, ModelFile* model) {
  const bool is_long = config.Int("cache.max_tokens") > model->spec.context();
  return is_long && model->spec.far_positions > 0 ? UseLongContext(model) : absl::OkStatus();
}

// What the weights are held as, and the file where they lie so already, if there is one.
absl::Status ChooseWeights(Assembly& assembly) {
  const Config& config = assembly.config();
  std::string weights = config.Text("model.weights");
  const std::string& packed = config.Text("model.packed");
  if (!packed.empty()) {
    if (assembly.model.spec.has_far_tensor()) {
      return UsageError(absl::StrCat(config.Describe("model.packed"), " = ", packed,
                                     ": holds RoPE's factors of short runs, ",
                                     config.Describe("cache.max_tokens"), " = ",
                                     config.Int("cache.max_tokens"), " asks for a long one"));
    }
    NG_ASSIGN_OR_RETURN(assembly.packed, PackedWeights::Open(packed, config.Text("model.path")));
    if (config.IsDefault("model.weights")) weights = assembly.packed->weights();
  }
  NG_ASSIGN_OR_RETURN(assembly.weight_types, WeightTypesFor(assembly.model, weights));
  return packed.empty() ? absl::OkStatus() : assembly.packed->CheckTypes(assembly.weight_types);
}

// The tokenizer that the config names, or else the one in the GGUF file or beside the model, if
// any.
absl::Status OpenTokenizerOf(Assembly& assembly, KeyPolicy& keys) {
  const Config& config = assembly.config();
  const std::optional<GgufMetadata>& metadata = assembly.model.metadata;
  assembly.tokenizer_path = config.Text("tokenizer.path");
  if (assembly.tokenizer_path.empty() && metadata) {
    if (!HasVocabulary(*metadata)) return absl::OkStatus();
    assembly.tokenizer_path = metadata->path();
    NG_ASSIGN_OR_RETURN(assembly.tokenizer, ReadGgufTokenizer(*metadata));
    return absl::OkStatus();
  }
  if (assembly.tokenizer_path.empty()) {
    assembly.tokenizer_path = FindTokenizer(config.Text("model.path")).value_or("");
  }
  if (assembly.tokenizer_path.empty()) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(assembly.tokenizer, OpenTokenizer(assembly.tokenizer_path, keys));
  return absl::OkStatus();
}

absl::Status OpenText(Assembly& assembly, KeyPolicy& keys) {
  const ModelFile& model = assembly.model;
  NG_RETURN_IF_ERROR(OpenTokenizerOf(assembly, keys));
  if (assembly.tokenizer == nullptr) return absl::OkStatus();
  const int64_t n_tokens = assembly.tokenizer->vocab_size();
  if (n_tokens - assembly.tokenizer->n_added() > model.spec.shape.vocab_size) {
    return ModelFileError(absl::StrCat(assembly.tokenizer_path, ": the tokenizer has ", n_tokens,
                                       " tokens, the model ", model.source->path(), " only ",
                                       model.spec.shape.vocab_size));
  }
  // A model may have more rows than its tokenizer has tokens; those have no text.
  assembly.token_bytes.resize(static_cast<size_t>(model.spec.shape.vocab_size));
  for (int64_t id = 0; id < std::min(n_tokens, model.spec.shape.vocab_size); ++id) {
    assembly.token_bytes[static_cast<size_t>(id)] =
        assembly.tokenizer->TokenBytes(static_cast<int32_t>(id));
  }
  assembly.special.resize(assembly.token_bytes.size());
  for (const int32_t id : assembly.tokenizer->SpecialIds()) {
    if (id < model.spec.shape.vocab_size) assembly.special[static_cast<size_t>(id)] = 1;
  }
  return absl::OkStatus();
}

// Errors about an option name the key that sets it, and where.
absl::Status WithKey(const Config& config, const absl::Status& status) {
  std::vector<std::string> keys = {"run.date"};
  for (const OptionValue& variable : PluginValues(config, "run", "template")) {
    keys.push_back("run.template." + variable.name);
  }
  const std::string message(status.message());
  for (const std::string& key : keys) {
    const std::string begin = key.substr(key.find('.') + 1);
    if (!message.starts_with(begin + " = ")) continue;
    return UsageError(config.Describe(key) + message.substr(begin.size()));
  }
  const char* const kTemplate = "tokenizer.chat_template";
  if (config.Text(kTemplate) != kOwnTemplate) {
    return Annotate(status, config.Describe(kTemplate) + ": ");
  }
  return absl::Status(status.code(), message + "; tokenizer.chat_template = none runs without it");
}

// What the model's files say of conversations, where they may be asked.
absl::Status FindTemplates(Assembly& assembly) {
  const Config& config = assembly.config();
  if (assembly.tokenizer == nullptr || config.Text("tokenizer.chat_template") == kNoTemplate) {
    return absl::OkStatus();
  }
  const std::optional<GgufMetadata>& gguf = assembly.model.metadata;
  NG_ASSIGN_OR_RETURN(assembly.templates, gguf ? FindTemplateMetadata(*gguf)
                                               : FindTemplateMetadata(config.Text("model.path")));
  return absl::OkStatus();
}

absl::Status CannotRun(const ForeignTemplate& foreign) {
  return ModelFileError(absl::StrCat(
      foreign.what,
      ", which ng cannot run, and its GGUF file has none; set tokenizer.chat_template ",
      "to the name or the file of one that does the same, or to none"));
}

// Null: there is none.
absl::StatusOr<std::unique_ptr<ChatTemplate>> BindChat(const Assembly& assembly) {
  const Config& config = assembly.config();
  ChatOptions options;
  options.chat_template = config.Text("tokenizer.chat_template");
  options.system = config.Text("run.system");
  options.date = config.Text("run.date");
  for (const OptionValue& variable : PluginValues(config, "run", "template")) {
    options.variables.emplace_back(variable.name, variable.text);
  }
  if (assembly.tokenizer == nullptr) {
    if (options.chat_template == kOwnTemplate || options.chat_template == kNoTemplate) {
      return nullptr;
    }
    return UsageError(absl::StrCat(config.Describe("tokenizer.chat_template"), " = ",
                                   options.chat_template,
                                   ": the model has no tokenizer to bind it to"));
  }
  absl::StatusOr<std::unique_ptr<ChatTemplate>> chat =
      BindChatTemplate(assembly.templates, *assembly.tokenizer, options);
  if (!chat.ok()) return WithKey(config, chat.status());
  const ForeignTemplate& foreign = assembly.selection.named.foreign_template;
  if (*chat == nullptr && options.chat_template == kOwnTemplate && !foreign.what.empty()) {
    if (foreign.same_as.empty()) return CannotRun(foreign);
    options.chat_template = foreign.same_as;
    chat = BindChatTemplate(assembly.templates, *assembly.tokenizer, options);
    if (!chat.ok()) return WithKey(config, chat.status());
  }
  if (*chat == nullptr && !options.variables.empty()) {
    const std::string key = "run.template." + options.variables[0].first;
    return UsageError(absl::StrCat(config.Describe(key), " = ", config.Text(key),
                                   ": the model has no chat template"));
  }
  return chat;
}

// What nobody has read of a GGUF file by now, but for what the user has from elsewhere.
absl::Status CheckMetadata(const Assembly& assembly, const KeyPolicy& keys) {
  const std::optional<GgufMetadata>& metadata = assembly.model.metadata;
  if (!metadata) return absl::OkStatus();
  std::vector<std::string> unasked;
  if (assembly.tokenizer_path != metadata->path()) unasked.emplace_back("tokenizer.");
  if (assembly.config().Text("tokenizer.chat_template") != "auto") {
    unasked.emplace_back("tokenizer.chat_template");
  }
  return CheckGgufKeys(*metadata, assembly.model.spec.family, unasked, keys);
}

absl::Status CheckIgnoredKeys(const Config& config, const KeyPolicy& keys) {
  constexpr const char* kKey = "model.ignore_keys";
  const std::vector<std::string> unmatched = keys.Unmatched();
  if (unmatched.empty()) return absl::OkStatus();
  return UsageError(absl::StrCat(config.Describe(kKey), " = ", config.Text(kKey),
                                 ": no file of the model has the key \"", unmatched.front(),
                                 "\"; the keys in an object are named as in rope_scaling.factor"));
}

// The eot of the template, or of the one that the tokenizer's own specials belong to, which ends an
// answer whether or not the user talks through the template; then the model's own end tokens.
absl::Status FindDefaultStopIds(Assembly& assembly, const KeyPolicy& keys) {
  std::vector<int32_t>& ids = assembly.stop_ids;
  if (assembly.chat != nullptr) {
    if (assembly.chat->eot() >= 0) ids.push_back(assembly.chat->eot());
  } else if (assembly.tokenizer != nullptr) {
    const std::string name(RecognisedTemplate(*assembly.tokenizer));
    NG_ASSIGN_OR_RETURN(const std::unique_ptr<ChatTemplate> chat,
                        BindChatTemplate({}, *assembly.tokenizer, {.chat_template = name}));
    if (chat != nullptr) ids.push_back(chat->eot());
  }
  const int64_t vocab_size = assembly.model.spec.shape.vocab_size;
  for (const int32_t id : assembly.model.eos_ids) {
    if (id >= vocab_size) {
      NG_RETURN_IF_ERROR(keys.Doubt(
          absl::StrCat(assembly.model.eos_origin, ": id ", id, " is outside the vocabulary, [0, ",
                       vocab_size - 1, "], so it ends nothing; run.stop_ids can name others")));
    } else if (std::ranges::count(ids, id) == 0) {
      ids.push_back(id);
    }
  }
  return absl::OkStatus();
}

absl::Status FindStopIds(Assembly& assembly, const KeyPolicy& keys) {
  const Config& config = assembly.config();
  if (config.Text("run.stop_ids") == "auto") return FindDefaultStopIds(assembly, keys);
  const int64_t vocab_size = assembly.model.spec.shape.vocab_size;
  for (const int64_t id : config.IntList("run.stop_ids")) {
    if (id < 0 || id >= vocab_size) {
      return UsageError(absl::StrCat(config.Describe("run.stop_ids"), ": id ", id,
                                     " is outside the vocabulary, must be in [0, ", vocab_size - 1,
                                     "]"));
    }
    assembly.stop_ids.push_back(static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

// Options of plugins that are neither chosen nor used by one that is.
void WarnOfUnusedOptions(Assembly& assembly) {
  std::vector<std::string> unused;
  for (const UnusedOption& option : assembly.selection.unused_options) {
    if (!assembly.UsedByParts(option)) unused.push_back(option.text);
  }
  if (!unused.empty()) assembly.warnings.Add("not used: " + absl::StrJoin(unused, ", "));
}

// The threads of another engine.
class BorrowedExecutor final : public Executor {
 public:
  explicit BorrowedExecutor(Executor& executor) : executor_(executor) {}
  int threads() const override { return executor_.threads(); }
  absl::Status Run(int64_t n_items, Task task, void* context) override {
    return executor_.Run(n_items, task, context);
  }

 private:
  Executor& executor_;
};

// Threads whose regions are counted.
class MeteredExecutor final : public Executor {
 public:
  MeteredExecutor(std::unique_ptr<Executor> executor, RegionMeter& meter)
      : executor_(std::move(executor)), meter_(meter) {}
  int threads() const override { return executor_->threads(); }
  absl::Status Run(int64_t n_items, Task task, void* context) override {
    if (!meter_.on) return executor_->Run(n_items, task, context);
    const auto begin = std::chrono::steady_clock::now();
    absl::Status status = executor_->Run(n_items, task, context);
    meter_.inside += std::chrono::steady_clock::now() - begin;
    ++meter_.regions;
    return status;
  }

 private:
  std::unique_ptr<Executor> executor_;
  RegionMeter& meter_;
};

// What must be made anew when a key changes.
enum class Remade { kNothing, kChain, kChat };
struct ChangeableKey {
  std::string_view key;  // with a dot at its end: every key that begins so
  Remade remade = Remade::kNothing;
};
constexpr ChangeableKey kChangeable[] = {
    {"sampler.seed", Remade::kNothing},
    {"sampler.", Remade::kChain},
    {"run.max_new_tokens", Remade::kNothing},
    {"run.on_full", Remade::kNothing},
    {"run.system", Remade::kChat},
    {"run.date", Remade::kChat},
    {"run.template.", Remade::kChat},
};

const ChangeableKey* FindChangeable(std::string_view key) {
  const auto* const found = std::ranges::find_if(kChangeable, [&](const ChangeableKey& one) {
    return one.key == key || (one.key.ends_with('.') && key.starts_with(one.key));
  });
  return found == std::end(kChangeable) ? nullptr : found;
}

// How each key is set, and which chain comes of it where other programs' names are used.
using Texts = std::map<std::string, std::string>;
Texts TextsOf(std::span<const ConfigEntry> entries) {
  Texts texts;
  for (const ConfigEntry& entry : entries) {
    std::string& text = texts[entry.key];
    if (entry.spelling.empty()) text.clear();
    absl::StrAppend(&text, entry.spelling, "=", entry.text, "\n");
  }
  return texts;
}

// What the difference of two lists of overrides makes anew.
std::set<Remade> WhatChanges(std::span<const ConfigEntry> before,
                             std::span<const ConfigEntry> after) {
  const Texts then = TextsOf(before);
  const Texts now = TextsOf(after);
  std::set<Remade> remade;
  for (const Texts* one : {&then, &now}) {
    const Texts& other = one == &then ? now : then;
    for (const auto& [key, text] : *one) {
      const auto found = other.find(key);
      if (found == other.end() || found->second != text) {
        remade.insert(FindChangeable(key)->remade);
      }
    }
  }
  return remade;
}

absl::Status CheckChangeable(const Config& config, const std::string& key) {
  if (CanChange(key)) return absl::OkStatus();
  return UsageError(absl::StrCat(key, " = ", config.Text(key),
                                 ": cannot change once the model is open; these can: sampler.*, "
                                 "run.max_new_tokens, run.on_full, run.system, run.date, "
                                 "run.template.*"));
}

}  // namespace

PluginContext Assembly::Context(const std::vector<OptionValue>& values) const {
  PluginContext context;
  context.executor = executor.get();
  context.isa = isa;
  context.model = model.spec.shape;
  context.token_bytes = token_bytes;
  context.special = special;
  context.stop_ids = stop_ids;
  context.options = OptionValues(values);
  context.host = parts.get();
  context.check = config().Bool("run.check_plugins");
  context.stop = stop;
  return context;
}

bool Assembly::Recomputes() const { return config().Text("run.on_full") == "recompute"; }

int64_t Assembly::ContextTokens() const {
  int64_t context = std::numeric_limits<int64_t>::max();
  if (!Recomputes()) return context;
  for (const int64_t limit : {model.spec.shape.max_positions, config().Int("cache.max_tokens")}) {
    if (limit > 0) context = std::min(context, limit);
  }
  return context;
}

namespace {

// Everything behind the fabric: what may be found on one rank alone.
absl::Status Fill(const EngineOptions& options, PlannedRank planned, Assembly& assembly) {
  const Config& config = assembly.config();
  KeyPolicy keys(config.Bool("model.strict"), config.Names("model.ignore_keys"),
                 [&](std::string_view warning) { assembly.warnings.Add(warning); });
  absl::StatusOr<ModelFile> model = OpenModelOf(config, options.random_weights, keys);
  const NameOfModel& named = assembly.selection.named;
  if (!model.ok() && !named.unknown.empty() && options.random_weights.empty()) {
    return ModelFileError(absl::StrCat(model.status().message(), named.unknown));
  }
  NG_ASSIGN_OR_RETURN(assembly.model, std::move(model));
  assembly.model.sampling = Together(named.sampling, std::move(assembly.model.sampling));
  NG_ASSIGN_OR_RETURN(assembly.adapters, OpenAdapters(config, keys, &assembly.model));
  NG_RETURN_IF_ERROR(ChooseLength(config, &assembly.model));
  NG_RETURN_IF_ERROR(assembly.FindGroup(options.plan_ranks, planned));
  if (!assembly.model.sampling.values.empty()) {
    NG_ASSIGN_OR_RETURN(assembly.selection,
                        SelectAgain(assembly.selection, {}, assembly.model.sampling));
  }
  for (const std::string& warning : assembly.model.warnings) assembly.warnings.Add(warning);
  if (!assembly.model.random_weights) NG_RETURN_IF_ERROR(OpenText(assembly, keys));
  NG_RETURN_IF_ERROR(FindTemplates(assembly));
  NG_ASSIGN_OR_RETURN(assembly.chat, BindChat(assembly));
  NG_RETURN_IF_ERROR(CheckMetadata(assembly, keys));
  NG_RETURN_IF_ERROR(CheckIgnoredKeys(config, keys));
  assembly.model.metadata.reset();  // nothing is read of it from here on
  NG_RETURN_IF_ERROR(FindStopIds(assembly, keys));

  NG_RETURN_IF_ERROR(ChooseWeights(assembly));
  assembly.KeepOwnLayers();
  assembly.parts =
      std::make_unique<PartFactory>(assembly.selection.host, assembly.selection.entries,
                                    [&parts = assembly](const std::vector<OptionValue>& values) {
                                      return parts.Context(values);
                                    });
  const LoadedPlugin& attention = assembly.selection.attention;
  const std::vector<OptionValue> values =
      PluginValues(config, "attention", attention.descriptor->name);
  NG_ASSIGN_OR_RETURN(assembly.attention, CreateAttention(attention, assembly.Context(values)));
  NG_RETURN_IF_ERROR(assembly.ChooseAttentionSpecs());
  NG_ASSIGN_OR_RETURN(assembly.chain, MakeSamplerChain(assembly, assembly.selection));
  NG_RETURN_IF_ERROR(MakeProbes(options.stop, assembly));
  NG_RETURN_IF_ERROR(assembly.MakeDrafter());
  assembly.unused_sampling = UnusedSampling(assembly.model.sampling, config);
  WarnOfUnusedOptions(assembly);
  return assembly.CheckRanks(options.ranks || options.plan_ranks > 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Assembly>> Assemble(const EngineOptions& options,
                                                   PlannedRank planned) {
  auto assembly = std::make_unique<Assembly>();
  assembly->stop = options.stop;
  assembly->warnings = Warnings(options.warning);
  NG_ASSIGN_OR_RETURN(assembly->selection, SelectPlugins(options));
  const Config& config = assembly->config();
  NG_ASSIGN_OR_RETURN(assembly->isa,
                      ChooseIsa(config.Text("run.isa"), config.Text("run.arithmetic")));
  if (options.executor != nullptr) {
    assembly->executor = std::make_unique<BorrowedExecutor>(*options.executor);
  } else {
    const auto n_wanted = static_cast<int>(config.Int("run.threads"));
    const int threads = n_wanted == 0 ? DefaultThreads() : n_wanted;
    Tell warning = [&warnings = assembly->warnings](std::string_view text) { warnings.Add(text); };
    assembly->executor = assembly->pins_threads() ? MakePinnedExecutor(threads, std::move(warning))
                                                  : MakeExecutor(threads, std::move(warning));
  }
  if (options.regions != nullptr) {
    assembly->executor =
        std::make_unique<MeteredExecutor>(std::move(assembly->executor), *options.regions);
  }

  NG_RETURN_IF_ERROR(assembly->MakeFabric());
  NG_RETURN_IF_ERROR(
      assembly->AgreeOnSetup(Fill(options, planned, *assembly), options.random_weights));
  return assembly;
}

bool CanChange(std::string_view key) {
  const Spelling* const spelling = FindSpelling(key);
  return FindChangeable(spelling == nullptr ? key : spelling->key) != nullptr;
}

absl::Status ChangeConfig(std::span<const std::string> overrides, Assembly& assembly) {
  NG_ASSIGN_OR_RETURN(std::vector<ConfigEntry> added, ParseOverrides(overrides));
  NG_ASSIGN_OR_RETURN(Selection selection,
                      SelectAgain(assembly.selection, added, assembly.model.sampling));
  for (const ConfigEntry& entry : added) {
    NG_RETURN_IF_ERROR(CheckChangeable(selection.config, entry.key));
  }
  const std::set<Remade> remade = WhatChanges(assembly.selection.added, added);
  const bool recomputed = assembly.Recomputes();
  std::swap(assembly.selection, selection);
  absl::Cleanup undo = [&] {
    std::swap(assembly.selection, selection);
    assembly.parts->SetEntries(assembly.selection.entries);
  };
  if (assembly.Recomputes() != recomputed) {
    return UsageError("run.on_full = recompute: cannot be chosen or left once the model is open");
  }
  assembly.parts->SetEntries(assembly.selection.entries);
  std::unique_ptr<ChatTemplate> chat;
  if (remade.contains(Remade::kChat)) {
    NG_ASSIGN_OR_RETURN(chat, BindChat(assembly));
  }
  if (remade.contains(Remade::kChain)) {
    NG_ASSIGN_OR_RETURN(assembly.chain, MakeSamplerChain(assembly, assembly.selection));
  }
  if (chat != nullptr) assembly.chat = std::move(chat);
  std::move(undo).Cancel();
  assembly.unused_sampling = UnusedSampling(assembly.model.sampling, assembly.config());
  WarnOfUnusedOptions(assembly);
  return absl::OkStatus();
}

bool Assembly::ReadsInStep(const RunNeeds& needs) const {
  // A hash is of all weights; other ranks, the head of a probe and adapters want all of them before
  // a step.
  const bool wants_all = needs.snapshots || needs.identity || link != nullptr || !probes->empty() ||
                         !adapters.Sets().empty();
  return needs.read_in_step && config().Text("model.load") == "with_prompt" && !packed &&
         !wants_all;
}

}  // namespace ng
