#include "apps/view/run_facts.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/arguments.h"
#include "apps/common/token_text.h"
#include "apps/common/version.h"
#include "ng/config.h"
#include "ng/isa.h"

namespace ng::view {
namespace {

namespace fs = std::filesystem;

// "temperature 0.9, top_k 50", each stage with the values of its options.
std::string ChainText(const Config& config) {
  std::vector<std::string> stages;
  for (const std::string& stage : config.Names("sampler.chain")) {
    std::string& text = stages.emplace_back(stage);
    for (const ConfigItem& item : config.items()) {
      if (!absl::StartsWith(item.declared.key, absl::StrCat("sampler.", stage, "."))) continue;
      absl::StrAppend(&text, " ", config.Text(item.declared.key));
    }
  }
  return absl::StrJoin(stages, ", ");
}

}  // namespace

absl::StatusOr<Facts> RunFacts(const Engine& engine, const char* program) {
  const Config& config = engine.config();
  NG_ASSIGN_OR_RETURN(const StepCost cost, engine.CostOfStep());
  const ModelShape& shape = engine.model_shape();
  const std::string version = VersionText(program);
  return Facts{{"model", fs::path(config.Text("model.path")).filename().string()},
               {"family", std::string(engine.family())},
               {"layers", absl::StrCat(shape.n_layers, " x ", shape.n_heads, " heads")},
               {"weights", std::string(cost.weights)},
               {"attention", config.Text("attention.name")},
               {"cache", config.Bool("run.use_cache")
                             ? absl::StrCat(config.Text("cache.name"), " ", CodecsOf(config).Text())
                             : "none: all is computed again"},
               {"sampler", ChainText(config)},
               {"seed", absl::StrCat(config.Int("sampler.seed"))},
               {"isa", std::string(IsaName(engine.isa()))},
               {"arithmetic", ArithmeticOf(engine.isa()).ToString()},
               {"threads", absl::StrCat(engine.threads())},
               {"version", version.substr(0, version.find('\n'))}};
}

absl::StatusOr<std::string> TextOf(const Engine& engine, int32_t id) {
  if (!engine.has_tokenizer()) return absl::StrCat(id);
  return VisibleToken(engine, id);
}

absl::Status FillTexts(const Engine& engine, Page* page) {
  const std::span<const uint8_t> special = engine.special_tokens();
  for (const int32_t id : std::span(page->ids).first(static_cast<size_t>(page->prompt_len))) {
    page->special.push_back(!special.empty() && special[static_cast<size_t>(id)] != 0);
  }
  std::set<int32_t> ids(page->ids.begin(), page->ids.end());
  const auto add = [&](const TopIds& top) {
    for (const auto& [id, p] : top) ids.insert(id);
  };
  for (const StepRecord& step : page->steps) {
    add(step.top_k);
    for (const StageRecord& stage : step.stages) add(stage.top);
  }
  if (page->lens) {
    for (const auto& of_layer : page->lens->top) std::ranges::for_each(of_layer, add);
  }
  if (page->against) std::ranges::for_each(page->against->top, add);
  for (const int32_t id : ids) {
    NG_ASSIGN_OR_RETURN(page->texts[id], TextOf(engine, id));
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> CacheFacts(const Engine& engine, const Timings& timings) {
  NG_ASSIGN_OR_RETURN(const StepCost cost, engine.CostOfStep());
  NG_ASSIGN_OR_RETURN(const std::vector<Statistic> counted, engine.CacheStatistics());
  const CodecNames codecs = CodecsOf(engine.config());
  Json json = Json::object();
  json["codec_k"] = codecs.k;
  json["codec_v"] = codecs.v;
  json["prefilled"] = timings.prefill_tokens;
  json["decoded"] = timings.decode_tokens;
  json["shared"] = timings.shared_tokens;
  json["loaded"] = timings.loaded_tokens;
  json["bytes_per_token"] = cost.cache_bytes_per_token;
  for (const Statistic& figure : counted) {
    if (figure.name != "shared_tokens") json[std::string(figure.name)] = figure.value;
  }
  return json;
}

std::string ReplayCommand(const std::string& config_file, const Config& config,
                          const GenerateRequest& request) {
  std::string command = "ng-run";
  const auto add = [&](const std::string& word) {
    absl::StrAppend(&command, " ", ShellWord(word));
  };
  if (!config_file.empty()) {
    add("--config");
    add(fs::absolute(config_file).lexically_normal().string());
  }
  for (const ConfigItem& item : config.items()) {
    const std::string& key = item.declared.key;
    if (absl::StartsWith(key, "serve.")) continue;  // how it was asked is no part of the answer
    const bool given = item.origin.kind == ConfigOrigin::Kind::kCommandLine;
    if (key == "run.max_new_tokens" || (!given && key != "sampler.seed")) continue;
    add(absl::StrCat("--", key, "=", config.Text(key)));  // a path is absolute
  }
  for (const std::string& setting : request.settings) add("--" + setting);
  add(absl::StrCat("--run.max_new_tokens=", request.max_new_tokens));
  add("--prompt-ids");
  add(absl::StrJoin(request.prompt_ids, " "));
  return command;
}

}  // namespace ng::view
