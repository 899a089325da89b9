#include "core/text/chat/template_metadata.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/formats/json.h"
#include "ng/tokenizer.h"

namespace ng {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kMaxTemplateBytes = int64_t{1} << 20;

constexpr char kTemplateKey[] = "tokenizer.chat_template";
constexpr char kTemplateNamesKey[] = "tokenizer.chat_templates";

// The special tokens that transformers tells a template of.
constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

// "chat_template" is a text, or a list of named texts; "default" is the one without tools.
absl::Status ReadTemplates(const Json& config, const std::string& path, TemplateMetadata* found) {
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(config, path));
  const auto value = config.find("chat_template");
  if (value == config.end() || !value->is_array()) {
    NG_ASSIGN_OR_RETURN(std::optional<std::string> text, fields.OptionalText("chat_template"));
    if (text) found->own = {path, *std::move(text)};
    return absl::OkStatus();
  }
  for (const Json& entry : *value) {
    NG_ASSIGN_OR_RETURN(const JsonFields named, JsonFields::Of(entry, path + ": chat_template"));
    NG_ASSIGN_OR_RETURN(const std::string name, named.Text("name"));
    NG_ASSIGN_OR_RETURN(std::optional<std::string> text, named.OptionalText("template"));
    if (!text) continue;
    if (name == "default") {
      found->own = {path, *std::move(text)};
    } else {
      found->named[name] = {path, *std::move(text)};
    }
  }
  return absl::OkStatus();
}

// The newer form: a file for each template. If there is one, only these count.
absl::Status ReadTemplateFiles(const fs::path& folder, TemplateMetadata* found) {
  const std::string own = (folder / "chat_template.jinja").string();
  std::vector<fs::path> others;
  std::error_code error;  // of a folder that is not there, or not to be read
  for (fs::directory_iterator entry(folder / "additional_chat_templates", error), end;
       !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".jinja") others.push_back(entry->path());
  }
  if (!MayExist(own) && others.empty()) return absl::OkStatus();
  found->own.reset();
  found->named.clear();
  if (MayExist(own)) {
    NG_ASSIGN_OR_RETURN(found->own, ReadTemplate(own));
  }
  for (const fs::path& other : others) {
    NG_ASSIGN_OR_RETURN(found->named[other.stem().string()], ReadTemplate(other.string()));
  }
  return absl::OkStatus();
}

// A special token is a text, or an object with its "content". What a file has of another type is
// for the tokenizer to refuse.
void AddSpecialTokens(const Json& config, std::map<std::string, std::string>* tokens) {
  for (const char* const name : kSpecialTokens) {
    const auto value = config.find(name);
    if (value == config.end()) continue;
    const Json& literal =
        value->is_object() && value->contains("content") ? (*value)["content"] : *value;
    if (literal.is_string()) tokens->emplace(name, literal.get<std::string>());
  }
}

}  // namespace

absl::StatusOr<TemplateSource> ReadTemplate(const std::string& path) {
  NG_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(path, kMaxTemplateBytes));
  return TemplateSource{path, std::move(text)};
}

absl::StatusOr<TemplateMetadata> FindTemplateMetadata(const GgufMetadata& metadata) {
  TemplateMetadata found;
  const JsonFields fields = metadata.fields();
  NG_ASSIGN_OR_RETURN(std::optional<std::string> own, fields.OptionalText(kTemplateKey));
  if (own) found.own = {metadata.path(), *std::move(own)};
  for (const std::string& key : metadata.KeysWith(std::string(kTemplateKey) + ".")) {
    NG_ASSIGN_OR_RETURN(std::string text, fields.Text(key));
    found.named[key.substr(std::string_view(kTemplateKey).size() + 1)] = {metadata.path(),
                                                                          std::move(text)};
  }
  // A list of those names, which says nothing new.
  if (fields.Has(kTemplateNamesKey)) NG_RETURN_IF_ERROR(metadata.Texts(kTemplateNamesKey).status());
  if (!fields.Has("tokenizer.ggml.tokens")) return found;
  NG_ASSIGN_OR_RETURN(const std::vector<std::string> tokens,
                      metadata.Texts("tokenizer.ggml.tokens"));
  for (const auto& [key, name] : {std::pair("tokenizer.ggml.bos_token_id", "bos_token"),
                                  {"tokenizer.ggml.eos_token_id", "eos_token"},
                                  {"tokenizer.ggml.unknown_token_id", "unk_token"},
                                  {"tokenizer.ggml.padding_token_id", "pad_token"}}) {
    NG_ASSIGN_OR_RETURN(
        const std::optional<int64_t> id,
        fields.OptionalInt(key, {.min = 0, .max = std::numeric_limits<int32_t>::max()}));
    if (id && *id < std::ssize(tokens)) {
      found.special_tokens.emplace(name, tokens[static_cast<size_t>(*id)]);
    }
  }
  return found;
}

absl::StatusOr<TemplateMetadata> FindTemplateMetadata(const std::string& folder) {
  TemplateMetadata found;
  const std::string config_path = (fs::path(folder) / "tokenizer_config.json").string();
  if (MayExist(config_path)) {
    NG_ASSIGN_OR_RETURN(const JsonDocument config, ReadJsonFile(config_path));
    NG_RETURN_IF_ERROR(ReadTemplates(*config, config_path, &found));
    AddSpecialTokens(*config, &found.special_tokens);
  }
  const std::string map_path = (fs::path(folder) / "special_tokens_map.json").string();
  if (MayExist(map_path)) {
    NG_ASSIGN_OR_RETURN(const JsonDocument map, ReadJsonFile(map_path));
    NG_RETURN_IF_ERROR(JsonFields::Of(*map, map_path).status());
    AddSpecialTokens(*map, &found.special_tokens);
  }
  NG_RETURN_IF_ERROR(ReadTemplateFiles(folder, &found));
  return found;
}

absl::StatusOr<TemplateMetadata> FindTemplateMetadataOf(const std::string& tokenizer_path) {
  std::error_code not_found;
  if (fs::is_directory(tokenizer_path, not_found)) return FindTemplateMetadata(tokenizer_path);
  NG_ASSIGN_OR_RETURN(InputFile input, InputFile::Open(tokenizer_path));
  NG_ASSIGN_OR_RETURN(const bool is_gguf, IsGguf(input));
  if (!is_gguf) return FindTemplateMetadata(fs::path(tokenizer_path).parent_path().string());
  NG_ASSIGN_OR_RETURN(const GgufFile gguf, ReadGguf(std::move(input)));
  return FindTemplateMetadata(gguf.metadata);
}

absl::StatusOr<std::map<std::string, std::string>> NamedTokens(const std::string& path) {
  NG_ASSIGN_OR_RETURN(TemplateMetadata found, FindTemplateMetadataOf(path));
  return std::move(found.special_tokens);
}

}  // namespace ng
