#include "core/text/files/tokenizer_json_file.h"

#include <algorithm>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"

namespace ng {
namespace {

using Json = nlohmann::json;

const Json kNothing;

// The keys that a tokenizer.json may have. "truncation" and "padding" are settings of a batch and
// not of the vocabulary; the program that encodes sets its own.
constexpr std::string_view kFileKeys[] = {"version",       "truncation",     "padding",
                                          "added_tokens",  "model",          "normalizer",
                                          "pre_tokenizer", "post_processor", "decoder"};
constexpr std::string_view kModelKeys[] = {"type",
                                           "dropout",
                                           "unk_token",
                                           "continuing_subword_prefix",
                                           "end_of_word_suffix",
                                           "fuse_unk",
                                           "byte_fallback",
                                           "ignore_merges",
                                           "vocab",
                                           "merges",
                                           "unk_id"};

void AddUnknown(const Json& object, std::span<const std::string_view> known,
                const std::string& prefix, std::vector<std::string>* unknown) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::count(known, key) == 0 && !SaysNothing(value))
      unknown->push_back(prefix + key);
  }
}

}  // namespace

absl::StatusOr<AddedToken> ReadAddedToken(const JsonFields& fields, const std::string& where) {
  AddedToken added;
  NG_ASSIGN_OR_RETURN(added.text, fields.Text("content"));
  if (added.text.empty()) {
    return ModelFileError(absl::StrCat(where, ".content = \"\", must be not empty"));
  }
  const std::pair<const char*, bool*> flags[] = {{"special", &added.special},
                                                 {"single_word", &added.single_word},
                                                 {"lstrip", &added.lstrip},
                                                 {"rstrip", &added.rstrip},
                                                 {"normalized", &added.normalized}};
  for (const auto& [key, flag] : flags) {
    NG_ASSIGN_OR_RETURN(*flag, fields.Bool(key));
  }
  return added;
}

const Json& TokenizerJsonFile::At(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

std::string TokenizerJsonFile::Where(std::string_view part) const {
  return absl::StrCat(path_, ": ", View(part));
}

absl::Status TokenizerJsonFile::Wrong(std::string_view part, const Json& found,
                                      std::string_view allowed) const {
  return ModelFileError(
      absl::StrCat(Where(part), " = ", JsonExcerpt(found), ", must be ", View(allowed)));
}

absl::StatusOr<std::string> TokenizerJsonFile::TypeOf(const Json& value,
                                                      std::string_view part) const {
  if (value.is_null()) return std::string();
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(value, Where(part)));
  return fields.Text("type");
}

absl::StatusOr<std::vector<TokenizerJsonFile::Member>> TokenizerJsonFile::Members(
    const char* part, const char* list_key) const {
  std::vector<Member> members;
  NG_RETURN_IF_ERROR(AddMembers(At(part), part, list_key, &members));
  return members;
}

absl::Status TokenizerJsonFile::AddMembers(const Json& value, const std::string& part,
                                           const char* list_key,
                                           std::vector<Member>* members) const {
  NG_ASSIGN_OR_RETURN(const std::string type, TypeOf(value, part));
  if (type.empty()) return absl::OkStatus();
  if (type != "Sequence") {
    members->push_back({part, type, &value});
    return absl::OkStatus();
  }
  const Json& list = At(value, list_key);
  const std::string list_name = absl::StrCat(part, ".", list_key);
  if (!list.is_array()) return Wrong(list_name, list, "a list");
  for (size_t i = 0; i < list.size(); ++i) {
    NG_RETURN_IF_ERROR(
        AddMembers(list[i], absl::StrCat(list_name, "[", i, "]"), list_key, members));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AddedToken>> TokenizerJsonFile::AddedTokens() const {
  std::vector<AddedToken> tokens;
  const Json& list = At("added_tokens");
  if (list.is_null()) return tokens;
  if (!list.is_array()) return Wrong("added_tokens", list, "a list");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = Where(absl::StrCat("added_tokens[", i, "]"));
    NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(list[i], where));
    NG_ASSIGN_OR_RETURN(const int64_t id, fields.Int("id", {0, kMaxTokenId}));
    NG_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(fields, where));
    token.id = static_cast<int32_t>(id);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

absl::StatusOr<TextEnds> TokenizerJsonFile::Ends(int64_t n_tokens) const {
  NG_ASSIGN_OR_RETURN(const auto members, Members("post_processor", "processors"));
  TextEnds ends;
  bool has_template = false;
  for (const Member& member : members) {
    if (member.type == "ByteLevel") continue;  // it changes offsets and no ids
    if (member.type != "TemplateProcessing" || has_template) {
      return Wrong(member.part + ".type", member.type,
                   "\"ByteLevel\", or \"TemplateProcessing\" once");
    }
    has_template = true;
    NG_RETURN_IF_ERROR(ReadTemplate(*member.value, n_tokens, &ends));
  }
  return ends;
}

absl::Status TokenizerJsonFile::ReadTemplate(const Json& processor, int64_t n_tokens,
                                             TextEnds* ends) const {
  const std::string part = "post_processor.single";
  const Json& single = At(processor, "single");
  if (!single.is_array()) return Wrong(part, single, "a list");
  std::vector<int32_t>* ids = &ends->prefix;
  for (size_t i = 0; i < single.size(); ++i) {
    const std::string item = absl::StrCat(part, "[", i, "]");
    const bool is_object = single[i].is_object();
    if (is_object && single[i].contains("SpecialToken")) {
      NG_RETURN_IF_ERROR(ReadTemplateToken(processor, single[i]["SpecialToken"], n_tokens, ids));
    } else if (is_object && single[i].contains("Sequence") && ids == &ends->prefix) {
      ids = &ends->suffix;
    } else {
      return Wrong(item, single[i], "a SpecialToken, or the one Sequence");
    }
  }
  if (ids == &ends->suffix) return absl::OkStatus();
  return Wrong(part, single, "a list with one Sequence");
}

absl::Status TokenizerJsonFile::ReadTemplateToken(const Json& processor, const Json& token,
                                                  int64_t n_tokens,
                                                  std::vector<int32_t>* ids) const {
  const std::string part = "post_processor.single";
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(token, Where(part)));
  NG_ASSIGN_OR_RETURN(const std::string name, fields.Text("id"));
  NG_ASSIGN_OR_RETURN(const JsonFields of_processor, JsonFields::Of(processor, Where(part)));
  NG_ASSIGN_OR_RETURN(const auto tokens, of_processor.OptionalObject("special_tokens"));
  if (!tokens) return Wrong("post_processor.special_tokens", kNothing, "an object");
  NG_ASSIGN_OR_RETURN(const auto named, tokens->OptionalObject(name));
  if (!named) return Wrong(part, token, "a token of special_tokens");
  NG_ASSIGN_OR_RETURN(const std::vector<int64_t> wide_ids,
                      named->IntList("ids", {0, n_tokens - 1}));
  for (const int64_t id : wide_ids) ids->push_back(static_cast<int32_t>(id));
  return absl::OkStatus();
}

std::vector<std::string> TokenizerJsonFile::UnknownKeys() const {
  std::vector<std::string> unknown;
  AddUnknown(file_, kFileKeys, "", &unknown);
  AddUnknown(At("model"), kModelKeys, "model.", &unknown);
  return unknown;
}

}  // namespace ng
