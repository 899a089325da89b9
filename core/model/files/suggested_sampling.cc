#include "core/model/files/suggested_sampling.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ng/list_item.h"

namespace ng {
namespace {

// It is followed also where nothing is drawn.
constexpr SamplingKey ListKey(const char* name, const char* stage = nullptr,
                              const char* option = nullptr) {
  return {.name = name,
          .gguf_name = nullptr,
          .stage = stage,
          .option = option,
          .neutral = 0,
          .role = SamplingRole::kAlways,
          .list = true};
}

constexpr const char* kStopTexts = "stop_texts";

constexpr SamplingKey kKeys[] = {
    {"repetition_penalty", "general.sampling.penalty_repeat", "repetition_penalty", "value", 1,
     SamplingRole::kAlways},
    {nullptr, "general.sampling.penalty_last_n", "repetition_penalty", "window", 64,
     SamplingRole::kDetail},
    // Those of bad_words_ids that are one token are banned ones too.
    ListKey("suppress_tokens", "banned_tokens", "ids"),
    ListKey("bad_words_ids"),
    ListKey("begin_suppress_tokens"),
    ListKey("stop", kStopTexts, "texts"),
    {"temperature", "general.sampling.temp", "temperature", "value", 1},
    {.name = "top_k",
     .gguf_name = "general.sampling.top_k",
     .stage = "top_k",
     .option = "k",
     .neutral = 0,
     .absent = 50},
    {"top_p", "general.sampling.top_p", "top_p", "p", 1},
    {"min_p", "general.sampling.min_p", "min_p", "p", 0},
    {"typical_p", nullptr, "typical_p", "p", 1},
    {nullptr, "general.sampling.xtc_probability", "xtc", "probability", 0},
    {nullptr, "general.sampling.xtc_threshold", "xtc", "threshold", 0.1, SamplingRole::kDetail},
    {"epsilon_cutoff", nullptr, nullptr, nullptr, 0},
    {"eta_cutoff", nullptr, nullptr, nullptr, 0},
    {"no_repeat_ngram_size", nullptr, nullptr, nullptr, 0, SamplingRole::kAlways},
    {"num_beams", nullptr, nullptr, nullptr, 1, SamplingRole::kAlways},
    {nullptr, "general.sampling.mirostat", nullptr, nullptr, 0},
};
constexpr SamplingKey kDoSample = {"do_sample", nullptr, "greedy", nullptr, 1};
// transformers looks back on all tokens, and has no key that says so.
constexpr SamplingKey kWholeWindow = {nullptr,  nullptr, "repetition_penalty",
                                      "window", 0,       SamplingRole::kDetail};

constexpr Range<double> kAny = {std::numeric_limits<double>::lowest(),
                                std::numeric_limits<double>::max()};

// The shortest form that is exact. What a GGUF file holds is an f32, and its author wrote 0.6.
std::string Digits(double value) {
  std::array<char, 32> digits{};
  const auto narrow = static_cast<float>(value);
  const auto end = static_cast<double>(narrow) == value
                       ? std::to_chars(digits.begin(), digits.end(), narrow)
                       : std::to_chars(digits.begin(), digits.end(), value);
  return {digits.data(), end.ptr};
}

SuggestedSampling Suggestion(const SamplingKey& key, const char* name, double value,
                             const std::string& path) {
  // 0 and less turn top_k off, in other programs too.
  if (key.IsOf("top_k")) value = std::max(value, 0.0);
  const std::string number = Digits(value);
  return {&key, value, number, absl::StrCat(path, ": key \"", name, "\""),
          absl::StrCat(name, " ", number)};
}

absl::StatusOr<SamplingSuggestions> Read(const JsonFields& fields, const std::string& path,
                                         const char* SamplingKey::*spelling) {
  SamplingSuggestions found;
  found.path = path;
  for (const SamplingKey& key : kKeys) {
    const char* const name = key.*spelling;
    if (name == nullptr || key.list) continue;
    NG_ASSIGN_OR_RETURN(const std::optional<double> value, fields.OptionalNumber(name, kAny));
    if (value) found.values.push_back(Suggestion(key, name, *value, path));
  }
  return found;
}

constexpr Range<int64_t> kAnyId = {std::numeric_limits<int64_t>::min(),
                                   std::numeric_limits<int64_t>::max()};

// Rows of tokens, each of which is not to be written: those of one token go to `banned`. Returns
// how many others there are.
absl::StatusOr<int64_t> ReadBadWords(const JsonFields& fields, const std::string& path,
                                     std::set<int64_t>* banned) {
  const char* const key = "bad_words_ids";
  const nlohmann::json* const rows = fields.Find(key);
  if (rows == nullptr) return 0;
  NG_ASSIGN_OR_RETURN(const auto ends, fields.OptionalInts("eos_token_id", kAnyId));
  int64_t n_others = 0;
  for (const nlohmann::json& row : *rows) {
    const bool are_ids = row.is_array() && std::ranges::all_of(row, [](const nlohmann::json& id) {
                           return id.is_number_integer();
                         });
    if (!rows->is_array() || !are_ids) {
      return ModelFileError(absl::StrCat(path, ": key \"", key, "\" = ", JsonExcerpt(*rows),
                                         ", must be a list of lists of ids"));
    }
    if (row.size() != 1) {
      n_others += row.empty() ? 0 : 1;
    } else if (const auto id = row[0].get<int64_t>(); !ends || std::ranges::count(*ends, id) == 0) {
      banned->insert(id);  // transformers bans no end
    }
  }
  return n_others;
}

// What is banned, in the place of the keys that say so.
absl::Status AddBans(const JsonFields& fields, int64_t vocab_size, SamplingSuggestions* found) {
  std::set<int64_t> banned;
  NG_ASSIGN_OR_RETURN(const int64_t n_rows, ReadBadWords(fields, found->path, &banned));
  NG_ASSIGN_OR_RETURN(const auto always, fields.OptionalInts("suppress_tokens", kAnyId));
  NG_ASSIGN_OR_RETURN(const auto at_begin, fields.OptionalInts("begin_suppress_tokens", kAnyId));
  if (always) banned.insert(always->begin(), always->end());
  std::erase_if(banned, [&](int64_t id) { return id < 0 || id >= vocab_size; });
  std::vector<SuggestedSampling> bans;
  for (const SamplingKey& key : kKeys) {
    if (!key.list || key.IsOf(kStopTexts)) continue;
    const std::string name = key.name;
    const auto n = static_cast<double>(key.stage != nullptr      ? banned.size()
                                       : name == "bad_words_ids" ? static_cast<size_t>(n_rows)
                                       : at_begin                ? at_begin->size()
                                                                 : 0);
    if (n == 0) continue;
    bans.push_back(
        {&key, n, key.stage == nullptr ? "" : absl::StrJoin(banned, ","),
         absl::StrCat(found->path, ": key \"", name, "\""),
         absl::StrCat(name, n == 1 ? " of one entry" : absl::StrCat(" of ", n, " entries"))});
  }
  found->values.insert(found->values.begin(), bans.begin(), bans.end());
  return absl::OkStatus();
}

// Nothing is drawn: what is about drawing goes, and `why` comes.
void TakeTheBest(SuggestedSampling why, SamplingSuggestions* found) {
  std::erase_if(found->values, [](const SuggestedSampling& suggested) {
    return suggested.key->role == SamplingRole::kStage;
  });
  why.key = &kDoSample;
  why.value = 0;
  found->values.push_back(std::move(why));
}

void TakeTheBestAtTemperature0(SamplingSuggestions* found) {
  const auto zero = std::ranges::find_if(found->values, [](const SuggestedSampling& suggested) {
    return suggested.key->IsOf("temperature") && suggested.value == 0.0;
  });
  if (zero != found->values.end()) TakeTheBest(SuggestedSampling(*zero), found);
}

}  // namespace

std::span<const SamplingKey> SamplingKeys() { return kKeys; }

absl::StatusOr<SuggestedSampling> SuggestStops(std::span<const std::string> texts,
                                               const std::string& path) {
  const auto* const key = std::ranges::find_if(
      kKeys, [](const SamplingKey& candidate) { return candidate.IsOf(kStopTexts); });
  const std::string origin = absl::StrCat(path, ": key \"", key->name, "\"");
  std::vector<std::string> items;
  for (const std::string& text : texts) {
    const std::optional<std::string> item = ListItem(text);
    if (!item) {
      return ModelFileError(absl::StrCat(origin, " = ", JsonExcerpt(nlohmann::json(text)),
                                         ", must be texts, ", kListItemWords));
    }
    items.push_back(*item);
  }
  const size_t n = items.size();
  return SuggestedSampling{key, static_cast<double>(n), absl::StrJoin(items, ","), origin,
                           absl::StrCat("stop of ", n, n == 1 ? " text" : " texts")};
}

SamplingSuggestions Together(const SamplingSuggestions& named, SamplingSuggestions of_file) {
  const bool only_lists = std::ranges::all_of(
      named.values, [](const SuggestedSampling& suggested) { return suggested.key->list; });
  if (!only_lists || of_file.values.empty()) return named.values.empty() ? of_file : named;
  of_file.values.insert(of_file.values.begin(), named.values.begin(), named.values.end());
  return of_file;
}

absl::StatusOr<SamplingSuggestions> ReadSuggestedSampling(const JsonFields& fields,
                                                          const std::string& path,
                                                          int64_t vocab_size) {
  NG_ASSIGN_OR_RETURN(SamplingSuggestions found, Read(fields, path, &SamplingKey::name));
  const auto penalty = std::ranges::find(found.values, &kKeys[0], &SuggestedSampling::key);
  if (penalty != found.values.end()) {
    found.values.insert(penalty + 1, {&kWholeWindow, 0, Digits(0.0), penalty->origin, ""});
  }
  NG_ASSIGN_OR_RETURN(const std::optional<bool> sample, fields.OptionalBool(kDoSample.name));
  const std::string origin = absl::StrCat(path, ": key \"", kDoSample.name, "\"");
  if (sample && !*sample) {
    TakeTheBest({&kDoSample, 0, "", origin, "do_sample false"}, &found);
  } else if (sample) {
    found.values.push_back({&kDoSample, 1, "", origin, "do_sample true"});
  }
  TakeTheBestAtTemperature0(&found);
  NG_RETURN_IF_ERROR(AddBans(fields, vocab_size, &found));
  return found;
}

absl::StatusOr<SamplingSuggestions> ReadGgufSampling(const JsonFields& metadata,
                                                     const std::string& path) {
  NG_ASSIGN_OR_RETURN(SamplingSuggestions found, Read(metadata, path, &SamplingKey::gguf_name));
  // There a window of -1 is the whole context, and one of 0 is none, so that nothing is penalised.
  const auto window = std::ranges::find(found.values, &kKeys[1], &SuggestedSampling::key);
  if (window != found.values.end() && window->value == 0.0) {
    std::erase_if(found.values, [](const SuggestedSampling& suggested) {
      return suggested.key->IsOf("repetition_penalty");
    });
  } else if (window != found.values.end() && window->value < 0.0) {
    window->value = 0.0;
    window->number = Digits(0.0);
  }
  TakeTheBestAtTemperature0(&found);
  return found;
}

}  // namespace ng
