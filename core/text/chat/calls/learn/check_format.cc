#include "core/text/chat/calls/learn/check_format.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/text/chat/calls/call_parser.h"

namespace ng::calls {
namespace {

using Json = nlohmann::ordered_json;

struct ArgumentKind {
  std::string_view words;
  std::string_view arguments;
};
constexpr ArgumentKind kKinds[] = {
    {"texts", R"({"ngkey": "one word"})"},
    {"empty texts", R"({"ngkey": ""})"},
    {"texts with quotes", R"({"ngkey": "it's \"so\" \\ 'or' not"})"},
    {"texts with line ends", R"({"ngkey": "\n one\n\n two \n"})"},
    {"texts in other scripts", R"({"ngkey": "né 日本 😀"})"},
    {"texts that read as other values", R"({"ngkey": "5", "ngother": "true"})"},
    {"texts with brackets", R"({"ngkey": "</a> <b> {c} [d], e=f"})"},
    {"numbers", R"({"ngnumber": -2.5e3})"},
    {"true and false", R"({"ngflag": true})"},
    {"null", R"({"ngnone": null})"},
    {"lists", R"({"nglist": [1, "two", [], [null, {"a": false}]]})"},
    {"objects", R"({"ngobject": {"a": {"b": ["it's"]}, "c": {}}})"},
    {"several arguments", R"({"ngkey": "a", "ngother": "b", "ngnumber": 3})"},
    {"no arguments", "{}"},
};

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
  for (const ArgumentKind& kind : kKinds) {
    if (!ComesBack(Json::parse(kind.arguments), format, prober)) cannot.emplace_back(kind.words);
  }
  return cannot;
}

size_t NumberOfKinds() { return std::size(kKinds); }

}  // namespace ng::calls
