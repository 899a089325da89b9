#include "tests/core/text/chat/calls/random_calls.h"

#include <algorithm>
#include <string_view>

namespace ng::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kBits[] = {"a",           "Paris",
                                 "it's",        "\"q\"",
                                 "\\",          "\n",
                                 "\t",          "é",
                                 "日本",        "😀",
                                 " ",           "{",
                                 "}",           "[",
                                 "]",           "<",
                                 "/>",          "5",
                                 "true",        "null",
                                 ":",           ",",
                                 "=",           "(",
                                 "</call>",     "</tool_call>",
                                 "\\n",         "x",
                                 "```",         "\"}",
                                 "')",          "<|end|>",
                                 "<think>",     "<parameter=a>",
                                 "]<|/tools|>", "[ARGS]"};

// Templates ask for all that a schema mostly has.
Json SchemaOf(const char* type) {
  Json schema = {{"type", type}, {"description", "of a call"}};
  if (std::string_view(type) == "array") schema["items"] = {{"type", "string"}};
  if (std::string_view(type) == "object") schema["properties"] = Json::object();
  return schema;
}

const char* TypeName(const Json& value) {
  if (value.is_string()) return "string";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  if (value.is_boolean()) return "boolean";
  if (value.is_null()) return "null";
  return value.is_array() ? "array" : "object";
}

}  // namespace

RandomCalls::RandomCalls(uint64_t seed, std::vector<std::string> marks,
                         std::vector<std::string> unwritable)
    : random_(seed), bits_(std::move(marks)), unwritable_(std::move(unwritable)) {
  bits_.insert(bits_.begin(), std::begin(kBits), std::end(kBits));
}

std::string RandomCalls::Text() {
  std::string text;
  for (size_t n = Below(6); n > 0; --n) text += bits_[Below(bits_.size())];
  const bool is_writable = std::ranges::none_of(
      unwritable_, [&](const std::string& one) { return text.find(one) != text.npos; });
  return is_writable ? text : "plain";
}

Json RandomCalls::Value(int depth) {
  switch (Below(depth > 2 ? 5 : 7)) {
    case 0:
    case 1:
      return Text();
    case 2:
      return static_cast<int>(Below(2000)) - 1000;
    case 3:
      return (static_cast<double>(Below(2000)) - 1000) / 8;
    case 4:
      return Below(3) == 0 ? Json(nullptr) : Json(Below(2) == 0);
    case 5: {
      Json list = Json::array();
      for (size_t n = Below(4); n > 0; --n) list.push_back(Value(depth + 1));
      return list;
    }
    default: {
      Json object = Json::object();
      for (size_t n = Below(4); n > 0; --n) object["k" + std::to_string(n)] = Value(depth + 1);
      return object;
    }
  }
}

MadeUp MakeUp(RandomCalls& random, bool several) {
  MadeUp made = {.messages = Json::array({{{"role", "user"}, {"content", "ask"}}}),
                 .tools = Json::array(),
                 .said = {}};
  Json answer = {{"role", "assistant"}, {"content", nullptr}};
  if (random.Below(2) == 0) {
    made.said.content = "Let me look:  at it.";
    answer["content"] = made.said.content;
  }
  if (random.Below(3) == 0) {
    made.said.reasoning = "It asks.\n\nSo I look.";
    answer["reasoning_content"] = made.said.reasoning;
  }
  const size_t n_calls = several ? 1 + random.Below(3) : 1;
  for (size_t i = 0; i < n_calls; ++i) {
    const std::string name = "look_" + std::string(1, static_cast<char>('a' + i));
    Json arguments = Json::object();
    Json properties = Json::object();
    for (size_t n = random.Below(5); n > 0; --n) {
      const std::string key = "key" + std::to_string(n);
      arguments[key] = random.Value(0);
      properties[key] = SchemaOf(TypeName(arguments[key]));
    }
    Json parameters = SchemaOf("object");
    parameters["properties"] = std::move(properties);
    parameters["required"] = Json::array();
    made.tools.push_back(
        {{"type", "function"},
         {"function", {{"name", name}, {"description", "looks"}, {"parameters", parameters}}}});
    answer["tool_calls"].push_back(
        {{"id", "call0000" + std::to_string(i)},
         {"type", "function"},
         {"function", {{"name", name}, {"arguments", arguments.dump()}}}});
    made.said.calls.emplace_back(name, arguments.dump());
  }
  made.messages.push_back(std::move(answer));
  return made;
}

std::vector<std::pair<std::string, nlohmann::json>> Values(const ReadBack& read) {
  std::vector<std::pair<std::string, nlohmann::json>> values;
  for (const auto& [name, arguments] : read.calls) {
    values.emplace_back(name, nlohmann::json::parse(arguments, nullptr, false));
  }
  return values;
}

}  // namespace ng::test
