#include "core/text/chat/calls/learn/check_format.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/text/chat/calls/argument_kinds.h"
#include "core/text/chat/calls/call_parser.h"

namespace ng::calls {
namespace {

using Json = nlohmann::ordered_json;

bool ComesBack(const Json& arguments, const CallFormat& format, const Prober& prober) {
  const std::optional<Symbols> text =
      prober.Answer({.arguments = {arguments}, .ids_from_names = format.head_is_id});
  if (!text) return false;
  CallParser parser(format, ToolSchemas(ProbeTools()), {});
  for (const char32_t symbol : *text) {
    if (IsToken(symbol)) {
      const auto id = static_cast<int32_t>(symbol - kFirstToken);
      parser.Push(id, prober.probed().token_text(symbol));
    } else {
      const char byte = static_cast<char>(symbol);
      parser.Push(-1, {&byte, 1});
    }
  }
  parser.Finish();
  std::string name;
  std::string read;
  for (const AnswerDelta& delta : parser.Take()) {
    if (delta.kind == AnswerDelta::Kind::kContent) return false;
    if (delta.kind == AnswerDelta::Kind::kCall) name += delta.text;
    if (delta.kind == AnswerDelta::Kind::kArguments) read += delta.text;
  }
  // The order of keys is the template's to choose.
  const auto value = nlohmann::json::parse(read, nullptr, /*allow_exceptions=*/false);
  return name == kProbeNames[0] && value == nlohmann::json(arguments);
}

}  // namespace

std::vector<std::string> CannotWrite(const CallFormat& format, const Prober& prober) {
  std::vector<std::string> cannot;
  for (const ArgumentKind& kind : ArgumentKinds()) {
    if (!ComesBack(Json::parse(kind.example), format, prober)) cannot.emplace_back(kind.words);
  }
  return cannot;
}

}  // namespace ng::calls
