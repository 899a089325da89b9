#include "apps/serve/requests/sampler_settings.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ng/list_item.h"
#include "ng/spellings.h"

namespace ng::serve {
namespace {

// What leaves tokens out before one is drawn. Mirostat takes its place.
constexpr std::string_view kCuts[] = {"top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "xtc"};

constexpr std::string_view kThoughts = "thoughts";

// The chain and the values of a request.
class ChainSettings {
 public:
  explicit ChainSettings(const Config& config)
      : given_(config.Names("sampler.chain")), chain_(given_) {}

  bool Has(std::string_view stage) const {
    return std::ranges::find(chain_, stage) != chain_.end();
  }
  // At its usual place, as the command line's spellings do it.
  void Add(std::string_view stage) { chain_ = WithStage(std::move(chain_), stage); }
  void Remove(std::string_view stage) { std::erase(chain_, stage); }
  void Set(std::string_view key, const std::string& value, const std::string& field) {
    const std::string full = absl::StrCat("sampler.", std::string(key));
    taken_.settings.push_back(absl::StrCat(full, "=", value));
    taken_.fields.emplace(full, field);
  }
  SamplerSettings Take() {
    if (chain_ != given_) {
      taken_.settings.insert(taken_.settings.begin(),
                             "sampler.chain=" + absl::StrJoin(chain_, ","));
    }
    return std::move(taken_);
  }

 private:
  std::vector<std::string> given_;  // the config's chain
  std::vector<std::string> chain_;
  SamplerSettings taken_;
};

void SetTemperature(double temperature, ChainSettings* settings) {
  settings->Add(temperature > 0 ? "temperature" : "greedy");
  if (temperature > 0) settings->Set("temperature.value", Digits(temperature), "temperature");
}

// As llama.cpp's: in place of all other stages that leave tokens out.
void SetMirostat(std::vector<StageSetting>* stages, ChainSettings* settings) {
  for (const std::string_view stage : kCuts) settings->Remove(stage);
  settings->Remove("greedy");
  settings->Add("mirostat");
  std::erase_if(*stages, [](const StageSetting& one) {
    return std::ranges::find(kCuts, one.stage) != std::end(kCuts);
  });
}

std::string KeyOf(const StageSetting& setting) {
  return absl::StrCat(std::string(setting.stage), ".", std::string(setting.option));
}

// Those that ask for a stage come first: then it is known which stages are there.
void SetStages(const std::vector<StageSetting>& stages, ChainSettings* settings) {
  for (const StageSetting& one : stages) {
    if (one.off) settings->Remove(one.stage);
    if (one.off || !one.alone) continue;
    const bool lacked = !settings->Has(one.stage);
    settings->Add(one.stage);
    settings->Set(KeyOf(one), one.value, one.field);
    const std::string_view option = one.added.substr(0, one.added.find('='));
    const bool said = std::ranges::any_of(stages, [&](const StageSetting& other) {
      return other.stage == one.stage && other.option == option;
    });
    if (!lacked || option.empty() || said) continue;
    settings->Set(absl::StrCat(std::string(one.stage), ".", std::string(option)),
                  std::string(one.added.substr(option.size() + 1)), one.field);
  }
  for (const StageSetting& one : stages) {
    if (one.alone || one.off || !settings->Has(one.stage)) continue;
    settings->Set(KeyOf(one), one.value, one.field);
  }
}

void SetLogitBias(const SamplingFields& fields, ChainSettings* settings) {
  if (fields.logit_bias.empty()) return;
  settings->Add("logit_bias");
  settings->Set("logit_bias.bias",
                absl::StrJoin(fields.logit_bias, ",",
                              [](std::string* out, const auto& one) {
                                absl::StrAppend(out, one.first, "=", Digits(one.second));
                              }),
                "logit_bias");
}

// The ids that end an answer, beside those that the config bans.
void BanStopIds(std::span<const int32_t> stop_ids, const Config& config, ChainSettings* settings) {
  if (stop_ids.empty()) return;
  constexpr const char* kKey = "sampler.banned_tokens.ids";
  std::vector<int64_t> ids(stop_ids.begin(), stop_ids.end());
  const auto has_key = [&](const ConfigItem& item) { return item.declared.key == kKey; };
  if (settings->Has("banned_tokens") && std::ranges::any_of(config.items(), has_key)) {
    const std::span<const int64_t> banned = config.IntList(kKey);
    ids.insert(ids.end(), banned.begin(), banned.end());
  }
  settings->Add("banned_tokens");
  settings->Set("banned_tokens.ids", absl::StrJoin(ids, ","), "ignore_eos");
}

void SetForm(const FormSetting& form, ChainSettings* settings) {
  if (form.option.empty()) return;
  settings->Add("grammar");
  for (const std::string_view option : {"json_schema", "regex", "gbnf"}) {
    settings->Set(absl::StrCat("grammar.", std::string(option)),
                  option == form.option ? form.value : "", form.field);
  }
  settings->Set("grammar.before", form.before, form.field);
}

}  // namespace

std::string Digits(double value) { return Json(value).dump(); }

SamplerSettings SettingsOf(const SamplingFields& fields, const Config& config,
                           std::span<const int32_t> stop_ids) {
  ChainSettings settings(config);
  SetForm(fields.form, &settings);
  if (fields.seed) settings.Set("seed", absl::StrCat(*fields.seed), "seed");
  if (fields.temperature) SetTemperature(*fields.temperature, &settings);
  std::vector<StageSetting> stages = fields.stages;
  const FormSetting& form = fields.form;
  if (!form.option.empty() && form.field != kCallForm && form.before.empty()) {
    // Such an answer has its form from its first token on: there are no thoughts to close.
    settings.Remove(kThoughts);
    std::erase_if(stages, [](const StageSetting& one) { return one.stage == kThoughts; });
  }
  if (fields.mirostat && fields.temperature != 0.0) SetMirostat(&stages, &settings);
  SetStages(stages, &settings);
  SetLogitBias(fields, &settings);
  if (fields.ignore_eos) BanStopIds(stop_ids, config, &settings);
  if (fields.stop.empty()) return settings.Take();
  settings.Add("stop_texts");
  settings.Set("stop_texts.texts",
               absl::StrJoin(fields.stop, ",",
                             [](std::string* out, const std::string& text) {
                               out->append(ListItem(text).value_or(""));
                             }),
               "stop");
  return settings.Take();
}

}  // namespace ng::serve
