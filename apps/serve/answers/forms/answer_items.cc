#include "apps/serve/answers/forms/answer_items.h"

#include <utility>

#include "ng/json.h"
#include "ng/ordered_json.h"

namespace ng::serve {
namespace {

constexpr int kMostArgumentsDepth = 64;

}  // namespace

ItemChange AddText(AnswerItem::Kind kind, const std::string& text, std::vector<AnswerItem>* items) {
  if (text.empty()) return {};
  const bool begins = items->empty() || items->back().kind != kind;
  if (begins) items->push_back({.kind = kind});
  items->back().text += text;
  return {.begins = begins, .more = text};
}

ItemChange AddCall(const ToolCall& call, std::vector<AnswerItem>* items) {
  const bool begins = !call.id.empty();
  if (begins) {
    items->push_back({.kind = AnswerItem::Kind::kCall, .call_id = call.id, .name = call.name});
  }
  items->back().text += call.arguments;
  return {.begins = begins, .more = call.arguments};
}

Json ArgumentsObject(const std::string& arguments) {
  if (CheckJson(arguments, "arguments", kMostArgumentsDepth).ok()) {
    Json object = ParseCheckedJson(arguments);
    if (object.is_object()) return object;
  }
  Json object = Json::object();
  if (!arguments.empty()) object["arguments"] = arguments;
  return object;
}

}  // namespace ng::serve
