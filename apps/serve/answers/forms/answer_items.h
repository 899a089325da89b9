// An answer as a list of items, in the order in which they came: thoughts, texts and calls of
// tools.
#ifndef NG_APPS_SERVE_ANSWERS_FORMS_ANSWER_ITEMS_H_
#define NG_APPS_SERVE_ANSWERS_FORMS_ANSWER_ITEMS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/serve/answers/api_error.h"

namespace ng::serve {

// A call of a tool, or a piece of it in a stream: then only the first has id and name.
struct ToolCall {
  int index = 0;
  std::string id = {};
  std::string name = {};
  std::string arguments = {};
};

struct AnswerItem {
  enum class Kind { kThought, kText, kCall };
  Kind kind = Kind::kText;
  std::string text = {};  // of a call: its arguments
  std::string call_id = {};
  std::string name = {};
};

// What a piece of an answer did: with the last item, which may have begun with it.
struct ItemChange {
  bool begins = false;
  std::string more = {};
};

// Adds text of a kind; of a call more of its arguments. A text that is empty adds nothing.
ItemChange AddText(AnswerItem::Kind kind, const std::string& text, std::vector<AnswerItem>* items);
// Adds a call, or a piece of the last one.
ItemChange AddCall(const ToolCall& call, std::vector<AnswerItem>* items);

// The arguments of a call as an object. What the model wrote may be none: then it is its only
// member, "arguments", as a text, so that nothing of it is lost.
Json ArgumentsObject(const std::string& arguments);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_FORMS_ANSWER_ITEMS_H_
