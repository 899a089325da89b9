// Assembly: the sampler chains, the config's and those of requests with settings of their own.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/assembly/assembly.h"

namespace ng {
namespace {

constexpr std::string_view kThoughts = "thoughts";

absl::StatusOr<std::vector<ConfigEntry>> ParseSettings(std::span<const std::string> settings) {
  NG_ASSIGN_OR_RETURN(std::vector<ConfigEntry> entries, ParseOverrides(settings));
  for (const ConfigEntry& entry : entries) {
    if (entry.key.starts_with("sampler.")) continue;
    return UsageError(absl::StrCat(entry.key, " = ", entry.text,
                                   ": no setting of a request; a request may set sampler.*"));
  }
  return entries;
}

// A setting that nothing uses is an error: nobody would see the warning that a config's has.
absl::Status CheckUsed(const Assembly& assembly, const Selection& selection,
                       std::span<const ConfigEntry> settings) {
  for (const UnusedOption& option : selection.unused_options) {
    const std::string prefix = absl::StrCat(option.kind, ".", option.name, ".");
    const bool own = std::ranges::any_of(settings, [&](const ConfigEntry& entry) {
      return entry.key.starts_with(prefix) && option.text.starts_with(entry.key);
    });
    if (own && !assembly.UsedByParts(option)) return UsageError("not used: " + option.text);
  }
  return absl::OkStatus();
}

// The stage `thoughts` is told how the model's template writes them, unless the config says it.
void AddThoughtMarks(const Assembly& assembly, std::vector<OptionValue>* values) {
  const auto marks = std::ranges::find(*values, "marks", &OptionValue::name);
  if (assembly.chat == nullptr || marks == values->end() || !marks->text.empty()) return;
  marks->text = assembly.chat->ThoughtMarks();
}

}  // namespace

bool Assembly::UsedByParts(const UnusedOption& option) const {
  return std::ranges::any_of(parts->used(), [&](const PartFactory::Used& part) {
    const PluginDescriptor& plugin = *part.plugin.descriptor;
    return option.kind == plugin.kind && option.name == plugin.name;
  });
}

absl::StatusOr<std::unique_ptr<SamplerChain>> MakeSamplerChain(const Assembly& assembly,
                                                               const Selection& selection,
                                                               const std::atomic<bool>* stop) {
  std::vector<ChainStage> stages;
  for (const LoadedPlugin& plugin : selection.stages) {
    std::vector<OptionValue> values =
        PluginValues(selection.config, "sampler", plugin.descriptor->name);
    if (plugin.descriptor->name == kThoughts) AddThoughtMarks(assembly, &values);
    PluginContext context = assembly.Context(values);
    if (stop != nullptr) context.stop = stop;
    ChainStage stage;
    stage.name = plugin.descriptor->name;
    NG_ASSIGN_OR_RETURN(stage.stage, CreateSampler(plugin, context));
    stages.push_back(std::move(stage));
  }
  return std::make_unique<SamplerChain>(std::move(stages), assembly.model.spec.shape.vocab_size,
                                        assembly.isa);
}

absl::StatusOr<RequestSampler> MakeRequestSampler(std::span<const std::string> settings,
                                                  const std::shared_ptr<SamplerChain>& shared,
                                                  const RequestSamplers::Stop& stop,
                                                  Assembly& assembly) {
  NG_ASSIGN_OR_RETURN(const std::vector<ConfigEntry> own, ParseSettings(settings));
  // Behind what Engine::Set has added.
  std::vector<ConfigEntry> added = assembly.selection.added;
  added.insert(added.end(), own.begin(), own.end());
  NG_ASSIGN_OR_RETURN(const Selection selection,
                      SelectAgain(assembly.selection, std::move(added), assembly.model.sampling));
  RequestSampler sampler = {shared, selection.config.Int("sampler.seed")};
  if (shared != nullptr) return sampler;
  // Stages that wrap others find the options of those.
  assembly.parts->SetEntries(selection.entries, stop.get());
  // What they are made of is asked for below; a server's requests must not add up to a long list.
  const size_t n_used = assembly.parts->used().size();
  const absl::Cleanup back = [&] {
    assembly.parts->SetEntries(assembly.selection.entries);
    assembly.parts->KeepUsed(n_used);
  };
  NG_ASSIGN_OR_RETURN(std::unique_ptr<SamplerChain> chain,
                      MakeSamplerChain(assembly, selection, stop.get()));
  NG_RETURN_IF_ERROR(CheckUsed(assembly, selection, own));
  // Its stages may ask `stop` for as long as they live.
  const auto made =
      std::make_shared<std::pair<RequestSamplers::Stop, std::unique_ptr<SamplerChain>>>(
          stop, std::move(chain));
  sampler.chain = {made, made->second.get()};
  return sampler;
}

}  // namespace ng
