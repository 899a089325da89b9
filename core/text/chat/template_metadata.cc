#include "core/text/chat/template_metadata.h"

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/formats/json.h"

namespace ng {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxTemplateBytes = int64_t{1} << 20;

constexpr std::string_view kHelpful = "You are a helpful assistant";
constexpr std::string_view kHelpfulStop = "You are a helpful assistant.";
constexpr std::string_view kQwen25 =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
constexpr std::string_view kSmolLm =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

// A published template, recognised by its length and its XXH3. Line ends in it are written as they
// are or escaped (backslash, n); in Jinja's strings both mean the same.
struct Published {
  size_t size;
  uint64_t hash;
  ChatTemplateChoice choice;
};

constexpr Published kPublished[] = {
    // ChatML
    {196, 0xA04F41D813A07B13, {"chatml"}},
    // ChatML, line ends escaped
    {199, 0x4C6E807EE5FE9F4A, {"chatml"}},
    // ChatML, the flag set first
    {291, 0xDA206A9E46A4AC01, {"chatml"}},
    // ChatML, the flag set first, line ends escaped
    {294, 0x846F9032C2079EA2, {"chatml"}},
    // Qwen1.5
    {443, 0xF40D3B263DCC40BF, {"chatml", kHelpful}},
    // Qwen1.5, line ends escaped
    {448, 0xF525CE544F7D7831, {"chatml", kHelpful}},
    // Qwen1.5, Qwen2
    {327, 0x20F20C2B5139EAEE, {"chatml", kHelpful}},
    // Qwen1.5, Qwen2, line ends escaped
    {332, 0x8DC1C6775F9CED80, {"chatml", kHelpful}},
    // Qwen2
    {328, 0xD5D943BD0BD9082F, {"chatml", kHelpfulStop}},
    // Qwen2, line ends escaped
    {333, 0xC79034A9D5F0AE58, {"chatml", kHelpfulStop}},
    // Qwen2.5; ng never asks for what it writes about tools
    {2507, 0x639547FE4D33FA67, {"chatml", kQwen25}},
    // SmolLM2
    {368, 0x99AB995E9629DACD, {"chatml", kSmolLm}},
    // SmolLM2, line ends escaped
    {373, 0x83059DDCB62B07A0, {"chatml", kSmolLm}},
    // Llama 2 Chat
    {811, 0xCB7C5112DFC4A3B0, {"llama2"}},
    // Llama 2 Chat, line ends escaped
    {815, 0x24F6D97F87D647F5, {"llama2"}},
    // Llama 3 Instruct
    {389, 0x9799AD6E2DEA0594, {"llama3"}},
    // Llama 3 Instruct, line ends escaped
    {393, 0x866FC8FA50DA12FE, {"llama3"}},
    // Llama 3 Instruct, always asking for an answer
    {348, 0xB97891B7ADC1BEB8, {"llama3"}},
    // Llama 3 Instruct, always asking for an answer, line ends escaped
    {352, 0x80E4830E93C6D9F7, {"llama3"}},
    // Zephyr, TinyLlama Chat
    {410, 0x1DB34E9FC60441D8, {"zephyr"}},
    // Zephyr, TinyLlama Chat, line ends escaped
    {413, 0xD9FE74EDCB57AA82, {"zephyr"}},
    // Mistral Instruct v0.1
    {477, 0xB7F52373B11C60D7, {"mistral", "", " "}},
    // Mistral Instruct v0.2, Mixtral Instruct
    {470, 0xA5D004210EBCE758, {"mistral"}},
};

// "chat_template" is a text, or a list of named texts; of these "default" counts.
absl::StatusOr<std::optional<std::string>> TextIn(const nlohmann::json& config,
                                                  const std::string& path) {
  NG_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(config, path));
  const auto value = config.find("chat_template");
  if (value == config.end() || !value->is_array()) return fields.OptionalText("chat_template");
  for (const nlohmann::json& entry : *value) {
    NG_ASSIGN_OR_RETURN(const JsonFields named, JsonFields::Of(entry, path + ": chat_template"));
    NG_ASSIGN_OR_RETURN(const std::string name, named.Text("name"));
    if (name == "default") return named.OptionalText("template");
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::optional<TemplateMetadata>> FindTemplateMetadata(const GgufMetadata& metadata) {
  NG_ASSIGN_OR_RETURN(std::optional<std::string> text,
                      metadata.fields().OptionalText("tokenizer.chat_template"));
  if (!text) return std::nullopt;
  return TemplateMetadata{metadata.path(), *std::move(text)};
}

absl::StatusOr<std::optional<TemplateMetadata>> FindTemplateMetadata(const std::string& folder) {
  const std::string jinja = (fs::path(folder) / "chat_template.jinja").string();
  if (MayExist(jinja)) {
    NG_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(jinja, kMaxTemplateBytes));
    return TemplateMetadata{jinja, std::move(text)};
  }
  const std::string config_path = (fs::path(folder) / "tokenizer_config.json").string();
  if (!MayExist(config_path)) return std::nullopt;
  NG_ASSIGN_OR_RETURN(const nlohmann::json config, ReadJsonFile(config_path));
  NG_ASSIGN_OR_RETURN(std::optional<std::string> text, TextIn(config, config_path));
  if (!text) return std::nullopt;
  return TemplateMetadata{config_path, *std::move(text)};
}

std::optional<ChatTemplateChoice> RecogniseTemplate(std::string_view text) {
  const uint64_t hash = HashOf(text);
  for (const Published& published : kPublished) {
    if (published.size == text.size() && published.hash == hash) return published.choice;
  }
  return std::nullopt;
}

}  // namespace ng
