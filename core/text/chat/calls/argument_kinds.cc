#include "core/text/chat/calls/argument_kinds.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace ng::calls {
namespace {

using Json = nlohmann::ordered_json;

template <class Is>
bool AnyText(const Json& arguments, Is is) {
  return std::ranges::any_of(arguments, [&](const Json& value) {
    return value.is_string() && is(value.get_ref<const std::string&>());
  });
}

bool HasAnyOf(const Json& arguments, const char* signs) {
  return AnyText(arguments,
                 [&](const std::string& text) { return text.find_first_of(signs) != text.npos; });
}

bool AnyValue(const Json& arguments, bool (Json::*is)() const noexcept) {
  return std::ranges::any_of(arguments, [&](const Json& value) { return (value.*is)(); });
}

constexpr ArgumentKind kKinds[] = {
    {"texts", R"({"ngkey": "one word"})",
     [](const Json& of) { return AnyValue(of, &Json::is_string); }},
    {"empty texts", R"({"ngkey": ""})",
     [](const Json& of) { return AnyText(of, [](const auto& text) { return text.empty(); }); }},
    {"texts with quotes", R"({"ngkey": "it's \"so\" \\ 'or' not"})",
     [](const Json& of) { return HasAnyOf(of, "'\"\\"); }},
    {"texts with line ends", R"({"ngkey": "\n one\n\n two \n"})",
     [](const Json& of) { return HasAnyOf(of, "\n\t "); }},
    {"texts in other scripts", R"({"ngkey": "né 日本 😀"})",
     [](const Json& of) {
       return AnyText(of, [](const auto& text) {
         return std::ranges::any_of(text, [](char c) { return static_cast<signed char>(c) < 0; });
       });
     }},
    {"texts that read as other values", R"({"ngkey": "5", "ngother": "true"})",
     [](const Json& of) {
       return AnyText(of, [](const auto& text) { return Json::accept(text); });
     }},
    {"texts with brackets", R"({"ngkey": "</a> <b> {c} [d], e=f"})",
     [](const Json& of) { return HasAnyOf(of, "<>{}[](),=/:`"); }},
    {"numbers", R"({"ngnumber": -2.5e3})",
     [](const Json& of) { return AnyValue(of, &Json::is_number); }},
    {"true and false", R"({"ngflag": true})",
     [](const Json& of) { return AnyValue(of, &Json::is_boolean); }},
    {"null", R"({"ngnone": null})", [](const Json& of) { return AnyValue(of, &Json::is_null); }},
    {"lists", R"({"nglist": [1, "two", [], [null, {"a": false}]]})",
     [](const Json& of) { return AnyValue(of, &Json::is_array); }},
    {"objects", R"({"ngobject": {"a": {"b": ["it's"]}, "c": {}}})",
     [](const Json& of) { return AnyValue(of, &Json::is_object); }},
    {"several arguments", R"({"ngkey": "a", "ngother": "b", "ngnumber": 3})",
     [](const Json& of) { return of.size() > 1; }},
    {"no arguments", "{}", [](const Json& of) { return of.empty(); }},
};

// Whether a text somewhere in a value has this in it.
bool TextHas(const Json& value, const std::string& mark) {
  if (value.is_string()) return absl::StrContains(value.get_ref<const std::string&>(), mark);
  return value.is_structured() &&
         std::ranges::any_of(value, [&](const Json& below) { return TextHas(below, mark); });
}

// The bytes that end a text in which nothing is escaped; empty: there are none, or a token does.
std::string EndOfTexts(const CallFormat& format) {
  const bool members = format.arguments == CallFormat::Arguments::kMembers;
  const SymbolsView end = Trim(members ? format.members.after : format.notation.quote);
  return std::ranges::any_of(end, IsToken) ? std::string() : TextOf(end, {});
}

}  // namespace

std::span<const ArgumentKind> ArgumentKinds() { return kKinds; }

std::string NotWritten(const CallFormat& format, const Json& arguments) {
  for (const ArgumentKind& kind : kKinds) {
    const bool cannot = std::ranges::find(format.cannot, kind.words) != format.cannot.end();
    if (cannot && kind.has(arguments)) return std::string(kind.words);
  }
  const std::string end = EndOfTexts(format);
  return !end.empty() && TextHas(arguments, end) ? "texts with " + end : std::string();
}

}  // namespace ng::calls
