#include "core/text/chat/calls/learn/probes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"

namespace ng::calls {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kAsk = "ng asks this";
constexpr std::string_view kPlain = "ngplain";

Json MessageOf(std::string_view role, std::string_view content) {
  Json message = Json::object();
  message["role"] = role;
  message["content"] = content;
  return message;
}

Json SchemaOf(const char* type) {
  Json schema = Json::object();
  schema["type"] = type;
  schema["description"] = "ng probes this";
  if (std::string_view(type) == "object") schema["properties"] = Json::object();
  if (std::string_view(type) == "array") schema["items"] = Json::object();
  return schema;
}

}  // namespace

Json ProbeTools() {
  Json properties = Json::object();
  for (const char* const name : {"ngkey", "ngother"}) properties[name] = SchemaOf("string");
  properties["ngnumber"] = SchemaOf("number");
  properties["ngflag"] = SchemaOf("boolean");
  properties["nglist"] = SchemaOf("array");
  properties["ngobject"] = SchemaOf("object");
  Json tools = Json::array();
  for (const std::string_view name : kProbeNames) {
    Json parameters = Json::object();
    parameters["type"] = "object";
    parameters["properties"] = properties;
    parameters["required"] = Json::array();
    Json tool = Json::object();
    tool["type"] = "function";
    tool["function"]["name"] = name;
    tool["function"]["description"] = "ng probes this";
    tool["function"]["parameters"] = std::move(parameters);
    tools.push_back(std::move(tool));
  }
  return tools;
}

bool IsJoint(SymbolsView text, size_t at) {
  if (at == 0 || at >= text.size()) return true;
  const char32_t before = text[at - 1];
  const char32_t behind = text[at];
  if (IsToken(before) || IsToken(behind) || IsBlank(before)) return true;
  return SymbolsView(U">])}").find(before) != SymbolsView::npos ||
         SymbolsView(U"<[({").find(behind) != SymbolsView::npos;
}

SymbolsView SharedBeginning(SymbolsView a, SymbolsView b) {
  const auto differ = std::ranges::mismatch(a, b);
  auto n = static_cast<size_t>(differ.in1 - a.begin());
  while (!IsJoint(a, n) || !IsJoint(b, n)) --n;
  return a.substr(0, n);
}

SymbolsView SharedEnd(SymbolsView a, SymbolsView b) {
  size_t n = 0;
  while (n < std::min(a.size(), b.size()) && a[a.size() - 1 - n] == b[b.size() - 1 - n]) ++n;
  while (!IsJoint(a, a.size() - n) || !IsJoint(b, b.size() - n)) --n;
  return a.substr(a.size() - n);
}

std::vector<Symbols> PartsOf(SymbolsView mark) {
  std::vector<Symbols> parts;
  Symbols part;
  const auto end = [&] {
    if (!Trim(part).empty()) parts.emplace_back(Trim(part));
    part.clear();
  };
  for (size_t i = 0; i < mark.size(); ++i) {
    const bool after_end = i > 0 && SymbolsView(U">])}").find(mark[i - 1]) != mark.npos;
    if (IsBlank(mark[i]) || after_end || (i > 0 && IsToken(mark[i - 1]))) end();
    part += mark[i];
  }
  end();
  return parts;
}

Prober::Prober(const ProbedTemplate& probed, bool arguments_text)
    : probed_(&probed), arguments_text_(arguments_text) {
  const std::optional<Symbols> asking =
      probed.render(Json::array({MessageOf("user", kAsk)}), /*asks=*/true);
  const Symbols ask = SymbolsOf(kAsk);
  if (asking) {
    const size_t at = asking->rfind(ask);
    if (at != asking->npos) asking_ = asking->substr(at + ask.size());
  }
  FindEnd();
}

void Prober::FindEnd() {
  const std::optional<Symbols> turn = Turn({.content = std::string(kPlain)});
  const Symbols plain = SymbolsOf(kPlain);
  const size_t at = turn ? turn->rfind(plain) : Symbols::npos;
  if (at == Symbols::npos) return;
  ending_ = turn->substr(at + plain.size());
  const auto token = std::ranges::find_if(ending_, IsToken);
  if (ending_.find(probed_->end) != ending_.npos && probed_->end != 0) {
    end_ = probed_->end;
  } else if (token != ending_.end()) {
    end_ = *token;
  }
}

std::optional<Symbols> Prober::Turn(const ProbedAnswer& answer) const {
  Json message = MessageOf("assistant", answer.content);
  if (answer.content.empty() && !answer.arguments.empty()) message["content"] = nullptr;
  if (!answer.thoughts.empty()) message["reasoning_content"] = answer.thoughts;
  for (size_t i = 0; i < answer.arguments.size(); ++i) {
    Json call = Json::object();
    call["id"] = answer.ids_from_names ? absl::StrCat("functions.", View(kProbeNames[i]), ":", i)
                                       : std::string(kProbeIds[i]);
    call["type"] = "function";
    call["function"]["name"] = kProbeNames[i];
    const Json& arguments = answer.arguments[i];
    call["function"]["arguments"] = arguments_text_ ? Json(arguments.dump()) : arguments;
    message["tool_calls"].push_back(std::move(call));
  }
  Json messages = Json::array({MessageOf("user", kAsk)});
  messages.push_back(std::move(message));
  const std::optional<Symbols> text = probed_->render(messages, /*asks=*/false);
  if (!text) return std::nullopt;
  const Symbols ask = SymbolsOf(kAsk);
  const size_t at = text->rfind(ask);
  if (at == text->npos) return std::nullopt;
  return text->substr(at + ask.size());
}

size_t Prober::HeaderOf(SymbolsView turn) const {
  if (turn.starts_with(asking_)) return asking_.size();
  return SharedBeginning(turn, asking_).size();
}

std::optional<Symbols> Prober::Answer(const ProbedAnswer& answer) const {
  const std::optional<Symbols> turn = Turn(answer);
  if (!turn) return std::nullopt;
  const SymbolsView all = SymbolsView(*turn).substr(HeaderOf(*turn));
  if (end_ != 0) return Symbols(all.substr(0, all.find(end_)));
  return Symbols(all.substr(0, all.size() - SharedEnd(all, ending_).size()));
}

}  // namespace ng::calls
