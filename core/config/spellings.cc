#include "ng/spellings.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/config/config.h"
#include "core/config/text.h"
#include "core/config/value.h"

namespace ng {
namespace {

constexpr std::string_view kChain = "sampler.chain";
constexpr std::string_view kGreedy = "greedy";
constexpr std::string_view kTemperature = "temperature";

// Of llama.cpp, transformers, ollama and vLLM. A program's own letters come before these.
constexpr Spelling kSpellings[] = {
    {"model model-path m", "model.path"},
    {"lora adapter", "model.adapters"},
    {"lora-modules", "model.named_adapters"},
    {.names = "temperature temp",
     .key = "sampler.temperature.value",
     .stage = kTemperature,
     .off = 0,
     .least = 0,
     .why = "must be 0, which is the stage greedy, or more"},
    {.names = "top-k", .key = "sampler.top_k.k", .stage = "top_k", .off = 0},
    {"top-p", "sampler.top_p.p", "top_p"},
    {"min-p", "sampler.min_p.p", "min_p"},
    {"typical typical-p", "sampler.typical_p.p", "typical_p"},
    {.names = "top-n-sigma top-nsigma",
     .key = "sampler.top_n_sigma.n",
     .stage = "top_n_sigma",
     .off = 0},
    {"xtc-probability", "sampler.xtc.probability", "xtc"},
    {"xtc-threshold", "sampler.xtc.threshold"},
    {"dry-multiplier", "sampler.dry.multiplier", "dry"},
    {"dry-base", "sampler.dry.base"},
    {"dry-allowed-length", "sampler.dry.allowed"},
    {.names = "mirostat",
     .key = kChain,
     .stage = "mirostat",
     .off = 0,
     .least = 2,
     .why = "is the version elsewhere; ng has 2, and 0 leaves it out"},
    {"mirostat-ent", "sampler.mirostat.tau"},
    {"mirostat-lr", "sampler.mirostat.eta"},
    {"repeat-penalty repetition-penalty", "sampler.repetition_penalty.value", "repetition_penalty"},
    {.names = "repeat-last-n",
     .key = "sampler.repetition_penalty.window",
     .least = 1,
     .why = "is no penalty, or the whole context, elsewhere; leave repetition_penalty out of "
            "sampler.chain, or give --sampler.repetition_penalty.window=0, which is all tokens"},
    {"frequency-penalty", "sampler.frequency_penalty.value", "frequency_penalty"},
    {"presence-penalty", "sampler.presence_penalty.value", "presence_penalty"},
    {"logit-bias", "sampler.logit_bias.bias", "logit_bias"},
    {"samplers sampler", kChain},
    {.names = "greedy no-sample", .key = kChain, .stage = kGreedy, .takes_value = false},
    {"stop reverse-prompt stop-sequences", "sampler.stop_texts.texts", "stop_texts"},
    {"grammar grammar-file", "sampler.grammar.gbnf", "grammar"},
    {"json-schema j json-schema-file guided-json", "sampler.grammar.json_schema", "grammar"},
    {.names = "reasoning-budget thinking-budget thinking-token-budget",
     .key = "sampler.thoughts.budget",
     .stage = "thoughts",
     .off = -1,
     .least = 0,
     .why = "must be -1, which is any number of tokens, or more"},
    {"seed s", "sampler.seed"},
    {.names = "n-predict predict max-tokens max-new-tokens num-predict n-tokens n",
     .key = "run.max_new_tokens",
     .least = -1,
     .why = "is not a number of tokens everywhere; -1 is without a limit but the context"},
    {"threads num-threads n-threads t", "run.threads"},
    {"system system-prompt sys", "run.system"},
    {"ctx-size context n-ctx max-model-len num-ctx context-length c", "cache.max_tokens"},
    {"parallel np max-num-seqs", "cache.max_sequences"},
    {"chat-template chat-template-file", "tokenizer.chat_template"},
    {"tokenizer", "tokenizer.path"},
    {"dtype torch-dtype quantization weights", "model.weights"},
    {"cache-type-k ctk", "cache.codec_k"},
    {"cache-type-v ctv", "cache.codec_v"},
    {"attention attn-implementation", "attention.name"},
    {"host", "serve.host"},
    {"port p", "serve.port"},
    {"api-key", "serve.key"},
    {"alias a served-model-name", "serve.model"},
    {.names = "sampler-seq sampling-seq",
     .key = {},
     .why = "is a letter for each stage elsewhere; write --sampler.chain=STAGE,..."},
    {.names = "jinja",
     .key = {},
     .takes_value = false,
     .why =
         "is what ng always does; leave it out, or write --tokenizer.chat_template=NAME or FILE"},
    {.names = "n-gpu-layers gpu-layers ngl",
     .key = {},
     .why = "gives layers to a GPU elsewhere; ng computes on the CPU, leave it out"},
};

// Where a stage belongs among others.
constexpr std::string_view kOrder[] = {"thoughts",
                                       "grammar",
                                       "banned_tokens",
                                       "logit_bias",
                                       "repetition_penalty",
                                       "frequency_penalty",
                                       "presence_penalty",
                                       "dry",
                                       kTemperature,
                                       "top_k",
                                       "top_p",
                                       "min_p",
                                       "typical_p",
                                       "top_n_sigma",
                                       "xtc",
                                       "mirostat",
                                       kGreedy,
                                       "stop_texts"};
// What only matters where something is drawn.
constexpr std::string_view kDraws[] = {kTemperature, "top_k",       "top_p", "min_p",
                                       "typical_p",  "top_n_sigma", "xtc",   "mirostat"};

size_t PlaceOf(std::string_view stage) {
  return static_cast<size_t>(std::ranges::find(kOrder, stage) - std::begin(kOrder));
}

std::optional<double> NumberIn(std::string_view text) {
  const std::string_view number = Trim(text);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return value;
}

bool IsOff(const Spelling& spelling, std::string_view text) {
  const std::optional<double> number = NumberIn(text);
  return number && *number <= spelling.off;
}

// Whether the value is one of a key, and not only of the chain.
bool SetsKey(const Spelling& spelling, std::string_view text) {
  return spelling.stage.empty() || (spelling.key != kChain && !IsOff(spelling, text));
}

void JoinStage(const Spelling& spelling, std::string_view text, std::vector<std::string>* chain) {
  if (!IsOff(spelling, text)) {
    *chain = WithStage(std::move(*chain), spelling.stage);
  } else if (spelling.stage == kTemperature) {
    *chain = WithStage(std::move(*chain), kGreedy);
  } else {
    std::erase(*chain, spelling.stage);
  }
}

}  // namespace

std::vector<std::string_view> Spelling::Names() const { return SplitTrimmed(names, " "); }

std::span<const Spelling> Spellings() { return kSpellings; }

const Spelling* FindSpelling(std::string_view name) {
  std::string typed(name);
  std::ranges::replace(typed, '_', '-');
  const auto* const found = std::ranges::find_if(kSpellings, [&](const Spelling& spelling) {
    return std::ranges::count(spelling.Names(), std::string_view(typed)) != 0;
  });
  return found == std::end(kSpellings) ? nullptr : found;
}

std::vector<std::string> WithStage(std::vector<std::string> chain, std::string_view stage) {
  if (stage == kGreedy) {
    std::erase_if(chain,
                  [](const std::string& one) { return std::ranges::count(kDraws, one) != 0; });
  }
  if (stage == kTemperature) std::erase(chain, kGreedy);
  if (std::ranges::count(chain, stage) != 0) return chain;
  const auto behind = std::ranges::find_if(chain, [&](const std::string& other) {
    const size_t place = PlaceOf(other);  // a stage of somebody's own stays where it is
    return place != std::size(kOrder) && place > PlaceOf(stage);
  });
  chain.emplace(behind, stage);
  return chain;
}

absl::Status SpellOut(ConfigEntry* entry) {
  const Spelling* const spelling = FindSpelling(entry->key);
  if (spelling == nullptr) return absl::OkStatus();
  entry->spelling = std::exchange(entry->key, std::string(spelling->key));
  if (spelling->key.empty()) {
    return UsageError(Cat("--", entry->spelling, ": ", spelling->why));
  }
  if (!spelling->takes_value && !Trim(entry->text).empty()) {
    return EntryError(*entry, "takes no value");
  }
  const std::optional<double> number = NumberIn(entry->text);
  bool is_known = !number || *number == spelling->off || *number >= spelling->least;
  // No entry of the chain: it is changed where all are known. A value only says whether it has the
  // stage.
  if (spelling->key == kChain && !spelling->stage.empty()) {
    entry->key = Cat("sampler.", spelling->stage);
    is_known = !spelling->takes_value || number == spelling->off || number == spelling->least;
  }
  return is_known ? absl::OkStatus() : EntryError(*entry, spelling->why);
}

void JoinStages(std::vector<ConfigEntry>* entries) {
  const auto& keys = CoreConfigKeys();
  const auto declared = std::ranges::find(keys, kChain, &ConfigKey::key);
  std::vector<std::string> before = SplitNames(DefaultEntry(*declared).text);
  std::vector<std::string> chain = before;
  std::vector<ConfigEntry> kept;
  for (ConfigEntry& entry : *entries) {
    if (entry.key == kChain) before = chain = SplitNames(entry.text);
    const Spelling* const spelling =
        entry.spelling.empty() ? nullptr : FindSpelling(entry.spelling);
    if (spelling != nullptr && !spelling->stage.empty()) JoinStage(*spelling, entry.text, &chain);
    if (spelling == nullptr || SetsKey(*spelling, entry.text)) kept.push_back(std::move(entry));
  }
  if (chain != before) {
    kept.push_back({std::string(kChain),
                    absl::StrJoin(chain, ","),
                    {ConfigOrigin::Kind::kCommandLine, "", 0}});
  }
  *entries = std::move(kept);
}

}  // namespace ng
