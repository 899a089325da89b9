// What a template writes of random calls is read back as these calls, wherever the text is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/core/text/chat/calls/call_templates.h"
#include "tests/core/text/chat/calls/read_answer.h"

namespace ng::test {
namespace {

using Json = nlohmann::ordered_json;

class RandomCalls {
 public:
  RandomCalls(uint64_t seed, const CallTemplate& call_template)
      : random_(seed), template_(&call_template) {}

  size_t Below(size_t n) { return random_() % n; }

  std::string Text() {
    static constexpr const char* kBits[] = {"a",           "Paris",
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
    std::string text;
    for (size_t n = Below(6); n > 0; --n) text += kBits[Below(std::size(kBits))];
    for (const char* const unwritable : template_->unwritable) {
      if (text.find(unwritable) != text.npos) return "plain";
    }
    return text;
  }
  Json Value(int depth) {
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

 private:
  std::mt19937_64 random_;
  const CallTemplate* template_;
};

const char* TypeName(const Json& value) {
  if (value.is_string()) return "string";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  if (value.is_boolean()) return "boolean";
  if (value.is_null()) return "null";
  return value.is_array() ? "array" : "object";
}

// A conversation of which the last answer has calls, and what these are.
struct MadeUp {
  Json messages = Json::array({{{"role", "user"}, {"content", "ask"}}});
  Json tools = Json::array();
  ReadBack said;
};

MadeUp MakeUp(RandomCalls& random, bool several) {
  MadeUp made;
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
      properties[key] = {{"type", TypeName(arguments[key])}};
    }
    const Json parameters = {{"type", "object"}, {"properties", properties}};
    made.tools.push_back(
        {{"type", "function"}, {"function", {{"name", name}, {"parameters", parameters}}}});
    answer["tool_calls"].push_back(
        {{"id", "call0000" + std::to_string(i)},
         {"type", "function"},
         {"function", {{"name", name}, {"arguments", arguments.dump()}}}});
    made.said.calls.emplace_back(name, arguments.dump());
  }
  made.messages.push_back(std::move(answer));
  return made;
}

// Calls with their arguments as values: spaces and the order of keys are the template's.
std::vector<std::pair<std::string, nlohmann::json>> Values(const ReadBack& read) {
  std::vector<std::pair<std::string, nlohmann::json>> values;
  for (const auto& [name, arguments] : read.calls) {
    values.emplace_back(name, nlohmann::json::parse(arguments, nullptr, false));
  }
  return values;
}

class RoundTrip : public testing::TestWithParam<std::pair<const char*, bool>> {};

TEST_P(RoundTrip, GivesTheSameCalls) {
  const auto& [name, tokens] = GetParam();
  const CallTemplate& call_template = CallTemplateOf(name);
  const BoundTemplate bound = Bind(call_template, tokens);
  RandomCalls random(7, call_template);
  for (int i = 0; i < 20; ++i) {
    const MadeUp made = MakeUp(random, call_template.several);
    const Json before = Json::array({made.messages[0]});
    const Conversation asked = {.messages = before.dump(), .tools = made.tools.dump()};
    const std::vector<int32_t> prompt = bound.chat->Encode(asked).value();
    std::vector<int32_t> ids =
        bound.chat
            ->Encode({.messages = made.messages.dump(), .tools = made.tools.dump(), .asks = false})
            .value();
    ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(prompt.size()));
    ids.resize(static_cast<size_t>(std::ranges::find(ids, bound.chat->eot()) - ids.begin()));

    const auto reader = [&] { return bound.chat->ReadAnswer(asked).value(); };
    const ReadBack read = ReadTokens(*bound.tokenizer, ids, *reader());
    EXPECT_EQ(Values(read), Values(made.said)) << name;
    EXPECT_EQ(read.content, made.said.content) << name;
    EXPECT_EQ(read.reasoning, made.said.reasoning) << name;
    // A token is a byte or a mark, so that was a cut at each of them.
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      ASSERT_EQ(ReadCut(*bound.tokenizer, ids, seed, *reader()), read) << name << " " << seed;
    }
  }
}

std::vector<std::pair<const char*, bool>> AllTemplates() {
  std::vector<std::pair<const char*, bool>> all;
  for (const CallTemplate& one : CallTemplates()) {
    all.emplace_back(one.name, true);
    if (!one.marks.empty()) all.emplace_back(one.name, false);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(, RoundTrip, testing::ValuesIn(AllTemplates()), [](const auto& info) {
  return std::string(info.param.first) + (info.param.second ? "" : "_in_bytes");
});

}  // namespace
}  // namespace ng::test
