#include "core/text/files/companions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/absl_view.h"
#include "core/base/file.h"
#include "core/formats/json.h"
#include "core/text/files/tokenizer_json_file.h"
#include "ng/json.h"
#include "ng/ordered_json.h"

namespace ng {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// Keys of tokenizer_config.json that change no id of a prompt. They are settings of batches, of
// paths, and of how ids are shown as text; and names of tokens that do not begin or end a text (so
// is any other key that ends in "_token").
constexpr std::string_view kInert[] = {"additional_special_tokens",
                                       "auto_map",
                                       "backend",
                                       "chat_template",
                                       "clean_up_tokenization_spaces",
                                       "device",
                                       "errors",
                                       "extra_special_tokens",
                                       "from_slow",
                                       "image_size",
                                       "is_local",
                                       "local_files_only",
                                       "max_length",
                                       "model_input_names",
                                       "model_max_length",
                                       "model_specific_special_tokens",
                                       "name_or_path",
                                       "pad_to_multiple_of",
                                       "pad_token_type_id",
                                       "padding",
                                       "padding_side",
                                       "processor_class",
                                       "return_token_type_ids",
                                       "revision",
                                       "sp_model_kwargs",
                                       "spaces_between_special_tokens",
                                       "special_tokens_map_file",
                                       "split_special_tokens",
                                       "stride",
                                       "tokenizer_file",
                                       "tokenizer_type",
                                       "trim_offsets",
                                       "truncation",
                                       "truncation_side",
                                       "truncation_strategy",
                                       "trust_remote_code",
                                       "unk_id",
                                       "use_default_system_prompt",
                                       "use_fast",
                                       "vocab_file",
                                       "vocab_size"};

// Keys that change ids and that no tokenizer here can follow: refused unless they say nothing.
constexpr std::string_view kRefused[] = {"do_lower_case", "do_basic_tokenize", "fix_mistral_regex",
                                         "keep_accents",  "lowercase",         "normalizer",
                                         "pre_tokenizer", "post_processor",    "remove_space",
                                         "strip_accents", "tokenizer_object",  "trim"};

// The special tokens that every tokenizer may have, in the order in which transformers adds them.
constexpr std::string_view kNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};
// Those of a model's own have names too, or lie in lists.
constexpr const char* kMoreNamed = "model_specific_special_tokens";
constexpr const char* kListed = "extra_special_tokens";
constexpr const char* kListedBefore = "additional_special_tokens";  // its older name

bool IsName(std::string_view key) { return key.ends_with("_token"); }

class CompanionsReader {
 public:
  CompanionsReader(const std::string& folder, KeyPolicy& policy)
      : folder_(folder), policy_(policy) {}

  absl::StatusOr<std::optional<Companions>> Read() {
    NG_ASSIGN_OR_RETURN(const std::optional<JsonDocument> config, Open("tokenizer_config.json"));
    bool has_added = false;
    if (config) {
      NG_RETURN_IF_ERROR(ReadConfig(**config));
      has_added = (*config)->contains("added_tokens_decoder");
    }
    if (!has_added) NG_RETURN_IF_ERROR(ReadOlderFiles());
    if (found_.path.empty()) return std::nullopt;
    std::ranges::sort(found_.added, {}, &AddedToken::id);
    for (auto& name : standard_) {
      if (name && !name->text.empty()) found_.named.push_back(*std::move(name));
    }
    for (auto& [key, token] : own_) found_.named.push_back(std::move(token));
    found_.listed = std::move(listed_).value_or(std::vector<AddedToken>());
    return std::move(found_);
  }

 private:
  // Reads one of the files, if it exists. Errors name the first one that does.
  absl::StatusOr<std::optional<JsonDocument>> Open(const char* name) {
    const std::string path = (fs::path(folder_) / name).string();
    if (!MayExist(path)) return std::nullopt;
    NG_ASSIGN_OR_RETURN(JsonDocument json, ReadJsonFile(path));
    NG_RETURN_IF_ERROR(JsonFields::Of(*json, path).status());
    policy_.LeaveOutIgnored(path, *json);
    if (found_.path.empty()) found_.path = path;
    return std::optional(std::move(json));
  }

  absl::Status ReadConfig(const Json& config) {
    const std::string& path = found_.path;
    NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(config, path));
    NG_ASSIGN_OR_RETURN(const auto name, fields.OptionalText("tokenizer_class"));
    found_.tokenizer_class = std::string(absl::StripSuffix(name.value_or(""), "Fast"));
    NG_ASSIGN_OR_RETURN(found_.add_bos_token, fields.OptionalBool("add_bos_token"));
    NG_ASSIGN_OR_RETURN(found_.add_eos_token, fields.OptionalBool("add_eos_token"));
    NG_ASSIGN_OR_RETURN(found_.add_prefix_space, fields.OptionalBool("add_prefix_space"));
    NG_ASSIGN_OR_RETURN(found_.legacy, fields.OptionalBool("legacy"));
    NG_RETURN_IF_ERROR(ReadNamed(config, path));
    NG_RETURN_IF_ERROR(ReadAddedTokens(fields, path));
    for (const std::string_view key : kRefused) {
      const Json* const value = fields.Find(key);
      if (value == nullptr || SaysNothing(*value)) continue;
      return ModelFileError(absl::StrCat(path, ": key \"", std::string(key),
                                         "\" = ", JsonExcerpt(*value),
                                         ", must be absent: no tokenizer here follows it"));
    }
    for (const auto& [key, value] : config.items()) {
      if (std::ranges::count(kInert, key) != 0 || IsName(key)) fields.Find(key);
    }
    return policy_.Unread(path, fields.Unread());
  }

  // The special tokens that a file names. A key that says null takes a token away that another file
  // has named.
  absl::Status ReadNamed(const Json& file, const std::string& path) {
    for (size_t i = 0; i < std::size(kNames); ++i) {
      const auto value = file.find(kNames[i]);
      if (value == file.end()) continue;
      standard_[i].emplace();
      if (!value->is_null()) {
        NG_ASSIGN_OR_RETURN(standard_[i], NamedToken(*value, Where(path, kNames[i])));
      }
    }
    if (standard_[0]) found_.bos_token = standard_[0]->text;
    if (standard_[1]) found_.eos_token = standard_[1]->text;
    NG_RETURN_IF_ERROR(ReadOwn(file, path));
    for (const char* const key : {kListed, kListedBefore}) {
      const auto value = file.find(key);
      const bool is_list = value != file.end() && value->is_array() && !value->empty();
      if (!is_list || (key == kListedBefore && listed_)) continue;
      if (!listed_) listed_.emplace();
      for (const Json& entry : *value) {
        NG_ASSIGN_OR_RETURN(AddedToken token, NamedToken(entry, Where(path, key)));
        if (!token.text.empty()) listed_->push_back(std::move(token));
      }
    }
    return absl::OkStatus();
  }

  // Names of the model's own: keys of the file, or of an object in it. Their order is the file's.
  absl::Status ReadOwn(const Json& file, const std::string& path) {
    NG_ASSIGN_OR_RETURN(const nlohmann::ordered_json ordered, ReadInOrder(path));
    const auto add = [&](const std::string& key, const nlohmann::ordered_json& value) {
      const absl::StatusOr<AddedToken> token = NamedToken(Json(value), Where(path, key));
      if (!token.ok() || token->text.empty()) return token.status();
      const auto same = std::ranges::find(own_, key, &std::pair<std::string, AddedToken>::first);
      if (same != own_.end()) same->second = *token;
      if (same == own_.end()) own_.emplace_back(key, *token);
      return absl::OkStatus();
    };
    for (const bool objects : {true, false}) {
      for (const auto& [key, value] : ordered.items()) {
        const bool is_own = IsName(key) && std::ranges::count(kNames, key) == 0;
        const bool is_token = value.is_string() || (value.is_object() && value.contains("content"));
        if (!file.contains(key) || !is_own || !is_token || value.is_object() != objects) continue;
        NG_RETURN_IF_ERROR(add(key, value));
      }
    }
    for (const char* const key : {kListed, kMoreNamed}) {
      const auto found = ordered.find(key);
      if (!file.contains(key) || found == ordered.end() || !found->is_object()) continue;
      for (const auto& [name, value] : found->items()) NG_RETURN_IF_ERROR(add(name, value));
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<nlohmann::ordered_json> ReadInOrder(const std::string& path) {
    constexpr int64_t kMostBytes = int64_t{64} << 20;
    constexpr int kMostDepth = 64;
    NG_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMostBytes));
    NG_RETURN_IF_ERROR(CheckJson(text, path, kMostDepth));
    return ParseCheckedJson(text);
  }

  static std::string Where(const std::string& path, std::string_view key) {
    return absl::StrCat(path, ": ", View(key));
  }

  // A text, or an object with its "content" and how it is found. An empty text is no token.
  static absl::StatusOr<AddedToken> NamedToken(const Json& value, const std::string& where) {
    AddedToken token = {.id = -1, .text = {}, .special = true};
    if (value.is_string()) {
      token.text = value.get<std::string>();
      return token;
    }
    if (!value.is_object()) {
      return ModelFileError(absl::StrCat(where, " = ", JsonExcerpt(value),
                                         ", must be a text, or an object with its \"content\""));
    }
    NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(value, where));
    NG_ASSIGN_OR_RETURN(token.text, fields.Text("content"));
    const std::pair<const char*, bool*> flags[] = {{"single_word", &token.single_word},
                                                   {"lstrip", &token.lstrip},
                                                   {"rstrip", &token.rstrip},
                                                   {"normalized", &token.normalized}};
    for (const auto& [key, flag] : flags) {
      NG_ASSIGN_OR_RETURN(const std::optional<bool> said, fields.OptionalBool(key));
      *flag = said.value_or(false);
    }
    return token;
  }

  // {"3": {"content", "lstrip", ...}, ...}
  absl::Status ReadAddedTokens(const JsonFields& config, const std::string& path) {
    const Json* const tokens = config.Find("added_tokens_decoder");
    if (tokens == nullptr) return absl::OkStatus();
    const std::string where = path + ": added_tokens_decoder";
    NG_RETURN_IF_ERROR(JsonFields::Of(*tokens, where).status());
    for (const auto& [key, value] : tokens->items()) {
      int64_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size() || id < 0 || id > kMaxTokenId) {
        return ModelFileError(
            absl::StrCat(where, ": key ", JsonExcerpt(key), ", must be a token id"));
      }
      const std::string entry = absl::StrCat(where, "[", id, "]");
      NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(value, entry));
      NG_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(fields, entry));
      token.id = static_cast<int32_t>(id);
      found_.added.push_back(std::move(token));
    }
    return absl::OkStatus();
  }

  absl::Status ReadOlderFiles() {
    NG_ASSIGN_OR_RETURN(const std::optional<JsonDocument> map, Open("special_tokens_map.json"));
    if (map) {
      const std::string path = (fs::path(folder_) / "special_tokens_map.json").string();
      NG_RETURN_IF_ERROR(ReadNamed(**map, path));
    }
    // {"<|im_end|>": 32000, ...}
    NG_ASSIGN_OR_RETURN(const std::optional<JsonDocument> added, Open("added_tokens.json"));
    if (!added) return absl::OkStatus();
    const std::string path = (fs::path(folder_) / "added_tokens.json").string();
    NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(**added, path));
    found_.only_ids = true;
    std::set<std::string> specials;
    for (const auto& name : standard_) {
      if (name) specials.insert(name->text);
    }
    if (listed_) {
      for (const AddedToken& token : *listed_) specials.insert(token.text);
    }
    for (const auto& [text, value] : (*added)->items()) {
      if (text.empty()) return ModelFileError(path + ": names an empty token");
      NG_ASSIGN_OR_RETURN(const int64_t id, fields.Int(text, {0, kMaxTokenId}));
      const bool special = specials.contains(text);
      found_.added.push_back({.id = static_cast<int32_t>(id),
                              .text = text,
                              .special = special,
                              .normalized = !special});
    }
    return absl::OkStatus();
  }

  const std::string& folder_;
  KeyPolicy& policy_;
  Companions found_;
  std::array<std::optional<AddedToken>, std::size(kNames)> standard_;  // by kNames
  std::vector<std::pair<std::string, AddedToken>> own_;                // by name
  std::optional<std::vector<AddedToken>> listed_;
};

}  // namespace

absl::StatusOr<std::optional<Companions>> ReadCompanions(const std::string& folder,
                                                         KeyPolicy& policy) {
  return CompanionsReader(folder, policy).Read();
}

bool IsLlamaClass(const Companions& companions) {
  return companions.tokenizer_class == "LlamaTokenizer";
}

SpacePrefix PrefixOfLlamaClass(const Companions& companions) {
  if (!companions.add_prefix_space.value_or(true)) return SpacePrefix::kNever;
  return companions.legacy.value_or(false) ? SpacePrefix::kEach : SpacePrefix::kFirst;
}

absl::StatusOr<bool> OpensAsItStands(const Companions& companions, const std::string& folder) {
  if (!IsLlamaClass(companions)) return true;
  const std::string path = (fs::path(folder) / "config.json").string();
  if (!MayExist(path)) return false;
  NG_ASSIGN_OR_RETURN(const JsonDocument config, ReadJsonFile(path));
  return config->is_object() && config->contains("model_type") &&
         (*config)["model_type"] == "mistral";
}

absl::Status CheckAgreement(const Companions& companions, const TextEnds& ends,
                            const std::string& path, const KeyPolicy& policy) {
  const struct {
    const char* key;
    std::optional<bool> said;
    bool done;
  } flags[] = {{"add_bos_token", companions.add_bos_token, !ends.prefix.empty()},
               {"add_eos_token", companions.add_eos_token, !ends.suffix.empty()}};
  for (const auto& flag : flags) {
    if (flag.said.value_or(flag.done) == flag.done) continue;
    NG_RETURN_IF_ERROR(policy.Doubt(absl::StrCat(companions.path, ": ", flag.key,
                                                 flag.done ? " = false" : " = true",
                                                 " is not what ", path, " does, which counts")));
  }
  return absl::OkStatus();
}

}  // namespace ng
