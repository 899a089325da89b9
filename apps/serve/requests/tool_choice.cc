#include "apps/serve/requests/tool_choice.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

namespace ng::serve {
namespace {

constexpr const char* kField = "tool_choice";
constexpr const char* kWords =
    "must be auto, none, required, {\"type\": \"function\"} with a tool's name, or {\"type\": "
    "\"allowed_tools\"} with a mode and tools";

std::optional<ToolChoice::Mode> ModeOf(const Json& word) {
  if (word == "auto") return ToolChoice::Mode::kAuto;
  if (word == "none") return ToolChoice::Mode::kNone;
  if (word == "required") return ToolChoice::Mode::kRequired;
  return std::nullopt;
}

// The name of a tool, or of the choice of one; empty: it has none.
std::string NameOf(const Json& tool) {
  const Json& function = FunctionOf(tool);
  if (!function.is_object() || !function.contains("name")) return {};
  const Json& name = function["name"];
  return name.is_string() ? name.get<std::string>() : std::string();
}

// Nothing where it is no choice.
std::optional<ToolChoice> ChoiceOf(const Json& value) {
  if (!value.is_object()) {
    const std::optional<ToolChoice::Mode> mode = ModeOf(value);
    if (!mode) return std::nullopt;
    return ToolChoice{.mode = *mode};
  }
  const Json type = value.contains("type") ? value["type"] : Json();
  if (type == "function") {
    const std::string name = NameOf(value);
    if (name.empty()) return std::nullopt;
    return ToolChoice{.mode = ToolChoice::Mode::kRequired, .names = {name}};
  }
  if (type != "allowed_tools") return std::nullopt;
  const Json& allowed = value.contains("allowed_tools") ? value["allowed_tools"] : value;
  if (!allowed.is_object() || !allowed.contains("mode") || !allowed.contains("tools")) {
    return std::nullopt;
  }
  const std::optional<ToolChoice::Mode> mode = ModeOf(allowed["mode"]);
  const Json& tools = allowed["tools"];
  if (!mode || *mode == ToolChoice::Mode::kNone || !tools.is_array() || tools.empty()) {
    return std::nullopt;
  }
  ToolChoice choice = {.mode = *mode};
  for (const Json& tool : tools) {
    choice.names.push_back(NameOf(tool));
    if (choice.names.back().empty()) return std::nullopt;
  }
  return choice;
}

}  // namespace

const Json& FunctionOf(const Json& tool) {
  return tool.is_object() && tool.contains("function") ? tool["function"] : tool;
}

void CheckToolChoice(Fields& fields, const char* field, const ToolChoice& choice,
                     const Json* tools) {
  const Json none = Json::array();
  std::vector<std::string> names;
  for (const Json& tool : tools == nullptr ? none : *tools) {
    std::string name = NameOf(tool);
    if (!name.empty()) names.push_back(std::move(name));
  }
  if (choice.mode == ToolChoice::Mode::kRequired && names.empty()) {
    fields.Refuse(field, "needs tools");
  }
  for (const std::string& name : choice.names) {
    if (std::ranges::find(names, name) != names.end()) continue;
    fields.Fail({.message = absl::StrCat(field, " names '", name.substr(0, 80),
                                         "', which is none of the tools"),
                 .param = field});
  }
}

ToolChoice ReadToolChoice(Fields& fields, const Json* tools) {
  const Json* const value = fields.Value(kField);
  if (value == nullptr) return {};
  const std::optional<ToolChoice> choice = ChoiceOf(*value);
  if (!choice) {
    fields.Refuse(kField, kWords);
    return {};
  }
  CheckToolChoice(fields, kField, *choice, tools);
  return *choice;
}

}  // namespace ng::serve
