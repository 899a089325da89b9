#include "apps/serve/sampler_settings.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ng::serve {
namespace {

// Where a stage belongs among others.
constexpr std::string_view kOrder[] = {"grammar",
                                       "banned_tokens",
                                       "logit_bias",
                                       "repetition_penalty",
                                       "frequency_penalty",
                                       "presence_penalty",
                                       "dry",
                                       "temperature",
                                       "top_k",
                                       "top_p",
                                       "min_p",
                                       "typical_p",
                                       "top_n_sigma",
                                       "xtc",
                                       "mirostat",
                                       "greedy",
                                       "stop_texts"};
// What only matters where something is drawn.
constexpr std::string_view kDraws[] = {"temperature", "top_k",       "top_p", "min_p",
                                       "typical_p",   "top_n_sigma", "xtc",   "mirostat"};

size_t PlaceOf(std::string_view stage) {
  return static_cast<size_t>(std::ranges::find(kOrder, stage) - std::begin(kOrder));
}

// The chain and the values of a request.
class ChainSettings {
 public:
  explicit ChainSettings(const Config& config) : chain_(config.Names("sampler.chain")) {}

  bool Has(std::string_view stage) const {
    return std::ranges::find(chain_, stage) != chain_.end();
  }
  // Puts it before the first stage that comes after it, unless it is there.
  void Add(std::string_view stage) {
    if (Has(stage)) return;
    const auto behind = std::ranges::find_if(chain_, [&](const std::string& other) {
      const size_t place = PlaceOf(other);  // a stage of somebody's own stays where it is
      return place != std::size(kOrder) && place > PlaceOf(stage);
    });
    chain_.emplace(behind, stage);
    changed_ = true;
  }
  void Remove(std::string_view stage) {
    changed_ |= std::erase_if(chain_, [&](const std::string& one) { return one == stage; }) > 0;
  }
  void Set(std::string_view key, const std::string& value) {
    values_.push_back(absl::StrCat("sampler.", std::string(key), "=", value));
  }
  std::vector<std::string> Take() {
    if (changed_) values_.insert(values_.begin(), "sampler.chain=" + absl::StrJoin(chain_, ","));
    return std::move(values_);
  }

 private:
  std::vector<std::string> chain_;
  std::vector<std::string> values_;
  bool changed_ = false;
};

// The shortest digits that are exactly this number.
std::string Digits(double value) { return Json(value).dump(); }

void SetTemperature(double temperature, ChainSettings* settings) {
  if (temperature > 0) {
    settings->Remove("greedy");
    settings->Add("temperature");
    settings->Set("temperature.value", Digits(temperature));
    return;
  }
  for (const std::string_view stage : kDraws) settings->Remove(stage);
  settings->Add("greedy");
}

// A stage that does nothing with the value `off` is not added for it.
void SetStage(std::string_view stage, std::string_view option, std::optional<double> value,
              double off, ChainSettings* settings) {
  if (!value || (*value == off && !settings->Has(stage))) return;
  settings->Add(stage);
  settings->Set(absl::StrCat(std::string(stage), ".", std::string(option)), Digits(*value));
}

// OpenAI's penalties know no window.
void SetPenalty(std::string_view stage, std::optional<double> value, ChainSettings* settings) {
  const bool adds = value && *value != 0 && !settings->Has(stage);
  SetStage(stage, "value", value, 0, settings);
  if (adds) settings->Set(absl::StrCat(std::string(stage), ".window"), "0");
}

void SetLogitBias(const SamplingFields& fields, ChainSettings* settings) {
  if (fields.logit_bias.empty()) return;
  settings->Add("logit_bias");
  settings->Set("logit_bias.bias",
                absl::StrJoin(fields.logit_bias, ",", [](std::string* out, const auto& one) {
                  absl::StrAppend(out, one.first, "=", Digits(one.second));
                }));
}

// A text as a list of the config holds it: the characters that mean something there are escaped.
std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == ',' || c == ' ') out += '\\';
    if (c == '\n' || c == '\t') out += '\\';
    out += c == '\n' ? 'n' : c == '\t' ? 't' : c;
  }
  return out;
}

// Blanks at the ends of a text that cannot be escaped would be dropped.
bool CanBeHeld(std::string_view text) {
  constexpr std::string_view kOtherBlanks = "\r\v\f";
  return kOtherBlanks.find(text.front()) == kOtherBlanks.npos &&
         kOtherBlanks.find(text.back()) == kOtherBlanks.npos;
}

}  // namespace

Parsed<std::vector<std::string>> SamplerSettings(const SamplingFields& fields,
                                                 const Config& config) {
  ChainSettings settings(config);
  if (!fields.json_schema.empty()) {
    settings.Add("grammar");
    settings.Set("grammar.json_schema", fields.json_schema);
    settings.Set("grammar.regex", "");
    settings.Set("grammar.gbnf", "");
  }
  if (fields.seed) settings.Set("seed", absl::StrCat(*fields.seed));
  if (fields.temperature) SetTemperature(*fields.temperature, &settings);
  SetStage("top_p", "p", fields.top_p, 1, &settings);
  if (fields.top_k) {
    settings.Add("top_k");
    settings.Set("top_k.k", absl::StrCat(*fields.top_k));
  }
  SetStage("min_p", "p", fields.min_p, 0, &settings);
  SetPenalty("frequency_penalty", fields.frequency_penalty, &settings);
  SetPenalty("presence_penalty", fields.presence_penalty, &settings);
  SetLogitBias(fields, &settings);
  if (fields.stop.empty()) return settings.Take();
  if (!std::ranges::all_of(fields.stop, CanBeHeld)) {
    return ApiError{.message = "stop: a text must not begin or end with \\r, \\v or \\f",
                    .param = "stop"};
  }
  settings.Add("stop_texts");
  settings.Set("stop_texts.texts",
               absl::StrJoin(fields.stop, ",", [](std::string* out, const std::string& text) {
                 out->append(Escaped(text));
               }));
  return settings.Take();
}

}  // namespace ng::serve
