#include "core/text/chat/calls/call_format.h"

#include <algorithm>
#include <string_view>

namespace ng::calls {
namespace {

using Json = nlohmann::ordered_json;

// Of a head: "functions.{name}:{index}".
std::string HeadText(const std::vector<HeadPart>& head, const TokenTexts& tokens) {
  std::string text;
  for (const HeadPart& part : head) {
    switch (part.kind) {
      case HeadPart::Kind::kLiteral:
        text += TextOf(part.text, tokens);
        break;
      case HeadPart::Kind::kName:
        text += "{name}";
        break;
      case HeadPart::Kind::kId:
        text += "{id}";
        break;
      case HeadPart::Kind::kIndex:
        text += "{index}";
        break;
    }
  }
  return text;
}

std::string NotationName(const Notation& notation, const TokenTexts& tokens) {
  if (notation.open == '(') return "keywords of Python";
  if (notation.python) return "literals of Python";
  if (!notation.quote.empty()) return "texts between " + TextOf(notation.quote, tokens);
  return notation.bare_keys ? "JSON with keys that have no quotes" : "JSON";
}

Json DescribedArguments(const CallFormat& format) {
  Json json = Json::object();
  const auto text = [&](const Symbols& symbols) { return TextOf(symbols, format.tokens); };
  switch (format.arguments) {
    case CallFormat::Arguments::kObject:
      json["style"] = NotationName(format.notation, format.tokens);
      break;
    case CallFormat::Arguments::kText:
      json["style"] = "JSON in a text of JSON";
      break;
    case CallFormat::Arguments::kMembers: {
      const Members& members = format.members;
      json["style"] = "one by one, texts as they are";
      json["before_key"] = text(members.before);
      json["between"] = text(members.between);
      json["between_others"] = Json::array();
      for (const Symbols& other : members.between_others) {
        json["between_others"].push_back(text(other));
      }
      json["after_value"] = text(members.after);
      json["separator"] = text(members.separator);
      json["end"] = text(members.end);
      break;
    }
  }
  json["cannot_write"] = format.cannot;
  return json;
}

}  // namespace

bool CallFormat::is_marked() const {
  constexpr size_t kShortMark = 3;
  Symbols begin = section_begin + call_begin;
  for (const std::vector<HeadPart>& head : heads) {
    if (!head.empty() && head.front().kind == HeadPart::Kind::kLiteral) begin += head.front().text;
  }
  if (std::ranges::any_of(begin, IsToken)) return true;
  return std::ranges::count_if(begin, [](char32_t c) { return !IsBlank(c); }) >=
         static_cast<ptrdiff_t>(kShortMark);
}

Json Described(const CallFormat& format) {
  const auto text = [&](const Symbols& symbols) { return TextOf(symbols, format.tokens); };
  Json json = Json::object();
  json["section_begin"] = text(format.section_begin);
  json["call_begin"] = text(format.call_begin);
  if (format.name_is_key) {
    json["call"] = "an object of which the key is the name";
  } else if (format.has_envelope()) {
    json["call"] = "an object";
    json["name"] = format.name_path;
    json["arguments_at"] = format.arguments_path;
    if (format.arguments_first) json["first"] = "arguments";
  } else {
    json["call"] = "a head and arguments";
    json["heads"] = Json::array();
    for (const auto& head : format.heads) json["heads"].push_back(HeadText(head, format.tokens));
  }
  json["arguments"] = DescribedArguments(format);
  json["call_end"] = Json::array();
  for (const Symbols& end : format.call_end) json["call_end"].push_back(text(end));
  json["separator"] = text(format.separator);
  json["section_end"] = Json::array();
  for (const Symbols& end : format.section_end) json["section_end"].push_back(text(end));
  json["reasoning_begin"] = text(format.reasoning_begin);
  json["reasoning_end"] = text(format.reasoning_end);
  json["several_calls"] = format.several;
  json["text_before_calls"] = format.text_before;
  json["template_takes_arguments_as"] = format.arguments_text ? "text" : "object";
  json["tokens"] = Json::object();
  for (const auto& [symbol, literal] : format.tokens) {
    json["tokens"][literal] = static_cast<int32_t>(symbol - kFirstToken);
  }
  return json;
}

}  // namespace ng::calls
