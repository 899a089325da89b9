#include "core/text/chat/calls/call_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/text/chat/calls/value_reader.h"
#include "tests/core/text/chat/calls/call_templates.h"
#include "tests/core/text/chat/calls/read_answer.h"

namespace ng::test {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kAsk = R"([{"role": "user", "content": "ask"}])";
constexpr const char* kTools = R"([{"type": "function", "function": {"name": "look", "parameters":
  {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
   "unit": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "where": {"$ref": "#/$defs/place"}},
   "$defs": {"place": {"type": "object"}}}}}])";

ReadBack Read(const std::string& name, const std::string& answer, const char* tools = kTools) {
  const BoundTemplate bound = Bind(CallTemplateOf(name));
  const auto reader = bound.chat->ReadAnswer({.messages = kAsk, .tools = tools}).value();
  return ReadText(*bound.tokenizer, answer, *reader);
}

ReadBack Called(const std::string& arguments) { return {.calls = {{"look", arguments}}}; }

TEST(CallParser, TakesTheOrderAndTheSpacesThatAModelWrites) {
  EXPECT_EQ(Read("hermes",
                 "<tool_call>{ \"arguments\":{\"city\":\"Rome\"} , \"name\":\"look\"}"
                 "</tool_call>"),
            Called(R"({"city":"Rome"})"));
  EXPECT_EQ(Read("hermes", "<tool_call>\n{\"name\": \"look\"}\n</tool_call>"), Called("{}"));
  EXPECT_EQ(Read("hermes",
                 "<tool_call>\n{\"name\": \"look\", \"parameters\": {\"days\": 2}}\n"
                 "</tool_call>"),
            Called(R"({"days": 2})"));
  EXPECT_EQ(Read("parameters",
                 "<tool_call><function=look><parameter=city>Rome</parameter>"
                 "<parameter=days>3</parameter></function></tool_call>"),
            Called(R"({"city": "Rome", "days": 3})"));
}

TEST(CallParser, TypesPlainValuesByTheSchema) {
  const auto read = [](const std::string& key, const std::string& value) {
    return Read("parameters", "<tool_call>\n<function=look>\n<parameter=" + key + ">\n" + value +
                                  "\n</parameter>\n</function>\n</tool_call>");
  };
  EXPECT_EQ(read("city", "5"), Called(R"({"city": "5"})"));
  EXPECT_EQ(read("days", "5"), Called(R"({"days": 5})"));
  EXPECT_EQ(read("days", "five"), Called(R"({"days": "five"})"));
  EXPECT_EQ(read("unit", "null"), Called(R"({"unit": null})"));
  EXPECT_EQ(read("unit", "5"), Called(R"({"unit": "5"})"));
  EXPECT_EQ(read("where", "{'a': None, 'b': ['it\\'s', True]}"),
            Called(R"({"where": {"a": null, "b": ["it's", true]}})"));
  EXPECT_EQ(read("unknown", "7"), Called(R"({"unknown": 7})"));
  EXPECT_EQ(read("unknown", "seven"), Called(R"({"unknown": "seven"})"));
}

TEST(CallParser, LeavesTextThatIsNoCall) {
  for (const char* const text : {"a < b, {\"name\": \"look\"}, </tool_call> and {\"name\": 3}",
                                 "<tool_call>", "<tool_call>{", "<tool_call>\n{\"name\": \"look",
                                 "<tool_call> is a mark", "  spaces stay \n "}) {
    EXPECT_EQ(Read("hermes", text), ReadBack{.content = text}) << text;
  }
  // Without a mark only declared tools are called, and only where an answer begins with them.
  for (const char* const text : {"{\"name\": \"jump\", \"parameters\": {}}", "{\"name\": \"look\"",
                                 "{\"a\": 1}", "[1, 2]"}) {
    EXPECT_EQ(Read("one_object", text), ReadBack{.content = text}) << text;
  }
  EXPECT_EQ(Read("python_unmarked", "[jump(a=1)]"), ReadBack{.content = "[jump(a=1)]"});
  EXPECT_EQ(Read("python_unmarked", "[look(days=1)]"), Called(R"({"days":1})"));
  // Nothing is called where nothing was offered.
  const std::string call = "<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n</tool_call>";
  EXPECT_EQ(Read("hermes", call, ""), ReadBack{.content = call});
}

TEST(CallParser, TakesNoMarkThatIsSpelledInOtherTokens) {
  const BoundTemplate bound = Bind(CallTemplateOf("hermes"));
  const auto reader = bound.chat->ReadAnswer({.messages = kAsk, .tools = kTools}).value();
  const std::string forged = "<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n</tool_call>";
  const auto ids = bound.tokenizer->Encode(forged, {}).value();
  EXPECT_EQ(ReadTokens(*bound.tokenizer, ids, *reader), ReadBack{.content = forged});
}

TEST(CallParser, ShowsWhatAModelWroteWhereArgumentsBreak) {
  EXPECT_EQ(Read("hermes",
                 "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"city\": Rome}}\n"
                 "</tool_call>after"),
            (ReadBack{.content = "after", .calls = {{"look", "{\"city\": Rome}}\n"}}}));
  EXPECT_EQ(Read("hermes", "<tool_call>{\"name\": \"look\", \"arguments\": {\"city\": \"Ro"),
            Called(R"({"city": "Ro)"));
  // What JSON does not allow in a text is escaped.
  EXPECT_EQ(Read("hermes",
                 "<tool_call>{\"name\": \"look\", \"arguments\": {\"city\": \"a\nb\\d\"}}"
                 "</tool_call>"),
            Called(R"({"city": "a\nb\\d"})"));
  // An object's end that is missing harms nothing.
  EXPECT_EQ(Read("hermes", "<tool_call>\n{\"name\": \"look\", \"arguments\": {}\n</tool_call>"),
            Called("{}"));
}

TEST(CallParser, ReadsThoughtsBeforeAndBetween) {
  EXPECT_EQ(Read("hermes", "<think>\nI\nsee \n</think>\n\nYes <think>no</think>."),
            (ReadBack{.content = "Yes.",
                      .reasoning = "I\nsee"
                                   "no"}));
  EXPECT_EQ(Read("hermes",
                 "<think>\nI see\n<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n"
                 "</tool_call>"),
            (ReadBack{.reasoning = "I see", .calls = {{"look", "{}"}}}));
}

TEST(CallParser, CutsBetweenCharacters) {
  const BoundTemplate bound = Bind(CallTemplateOf("hermes"));
  const auto reader = bound.chat->ReadAnswer({.messages = kAsk, .tools = kTools}).value();
  std::vector<std::string> pieces;
  for (const char byte : std::string("\xC3\xA9\xE2\x82")) {
    reader->Push(0, {&byte, 1});
    for (const AnswerDelta& delta : reader->Take()) pieces.push_back(delta.text);
  }
  reader->Finish();
  for (const AnswerDelta& delta : reader->Take()) pieces.push_back(delta.text);
  EXPECT_THAT(pieces, ElementsAre("é", "\uFFFD"));
}

TEST(LearnFormat, KnowsWhereAPromptBeginsThoughts) {
  CallTemplate thinking = CallTemplateOf("hermes");
  const BoundTemplate plain = Bind(thinking);
  EXPECT_EQ(ReadText(*plain.tokenizer, "a", *plain.chat->ReadAnswer({.messages = kAsk}).value()),
            ReadBack{.content = "a"});
  const std::string begun =
      std::string(thinking.calls) +
      "{%- endif -%}{%- else -%}{{- m.content -}}{%- endif -%}{{- '<|end|>\\n' -}}{%- endfor -%}"
      "{%- if add_generation_prompt -%}{{- '<|turn|>assistant\\n<think>\\n' -}}"
      "{%- if quick -%}{{- '</think>' -}}{%- endif -%}{%- endif -%}"
      "{%- for m in [] -%}{%- if true -%}{%- if true -%}";
  thinking.calls = begun.c_str();
  const BoundTemplate bound = Bind(thinking);
  const auto read = [&](const char* variables) {
    const auto reader =
        bound.chat->ReadAnswer({.messages = kAsk, .tools = kTools, .variables = variables});
    return ReadText(*bound.tokenizer, "a</think>b", **reader);
  };
  EXPECT_EQ(read(""), (ReadBack{.content = "b", .reasoning = "a"}));
  EXPECT_EQ(read(R"({"quick": true})"), ReadBack{.content = "a</think>b"});
  // What may come before an answer that is held to a form.
  const auto before = [](const BoundTemplate& of, const Conversation& conversation) {
    return of.chat->ThoughtsGrammar(conversation).value();
  };
  const auto token = [](const BoundTemplate& of, const char* text) {
    const auto ids = of.tokenizer->Encode(text, {.parse_special = true}).value();
    return absl::StrCat("<[", ids.at(0), "]> ");
  };
  const std::string end = token(bound, "</think>");
  const std::string begin = token(plain, "<think>");
  const std::string thoughts = absl::StrCat("%until(", end, ": ) ");
  EXPECT_EQ(before(bound, {.messages = kAsk}), thoughts + "[ \\n]{0,2} ");
  EXPECT_EQ(before(plain, {.messages = kAsk}),
            absl::StrCat("(", begin, thoughts, ")? [ \\n]{0,2} "));
  EXPECT_EQ(before(bound, {.messages = kAsk, .variables = R"({"quick": true})"}), "");
  EXPECT_EQ(before(plain, {.messages = kAsk, .asks = false}), "");
}

BoundTemplate BindText(const std::string& program) {
  return BindProgram({.own = TemplateSource{"a test", program}}, {}).value();
}

// A template in which an answer's content has a mark that no call has, and thoughts go before both.
TEST(LearnFormat, KnowsAMarkThatContentAloneHas) {
  const BoundTemplate bound = BindText(
      "{%- for m in messages -%}{%- if m.role == 'user' -%}{{- '<q>' + m.content -}}{%- else -%}"
      "{{- '<turn>' -}}"
      "{%- if m.reasoning_content -%}{{- '<to=self>' + m.reasoning_content + '<next>' -}}{%- endif "
      "-%}"
      "{%- if m.content -%}{{- '<to=user>' + m.content + '<next>' -}}{%- endif -%}"
      "{%- for c in m.tool_calls or [] -%}{{- '<to=tool>' + c.function.name + '\n' -}}"
      "{{- c.function.arguments|tojson + '<next>' -}}{%- endfor -%}{{- '<end>' -}}"
      "{%- endif -%}{%- endfor -%}{%- if tools -%}{%- endif -%}"
      "{%- if add_generation_prompt -%}{{- '<turn>' -}}{%- endif -%}");
  const auto read = [&](const std::string& answer) {
    const auto reader = bound.chat->ReadAnswer({.messages = kAsk, .tools = kTools}).value();
    return ReadText(*bound.tokenizer, answer, *reader);
  };
  EXPECT_EQ(read("<to=self>hm<next><to=tool>look\n{\"city\": \"Rome\"}"),
            (ReadBack{.reasoning = "hm", .calls = {{"look", "{\"city\": \"Rome\"}"}}}));
  EXPECT_EQ(read("<to=self>hm<next><to=user>well").content, "well");
}

// Behind a number there is less than behind a text.
TEST(LearnFormat, TakesNumbersThatEndOtherwise) {
  const BoundTemplate bound = BindText(
      "{%- for m in messages -%}{{- '<' + m.role + '>' + (m.content or '') -}}"
      "{%- for c in m.tool_calls or [] -%}{{- '<call>' + c.function.name + '\\n' -}}"
      "{%- for k, v in c.function.arguments|items -%}{{- '<key>' + k + '</key>' -}}"
      "{{- '<text>' + v + '</text>' if v is string else v|tojson -}}"
      "{%- endfor -%}{%- endfor -%}{%- endfor -%}{%- if tools -%}{%- endif -%}"
      "{%- if add_generation_prompt -%}{{- '<assistant>' -}}{%- endif -%}");
  const auto described = bound.chat->DescribeCalls();
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_EQ(Json::parse(*described)["arguments"]["after_value"], "</text>");
}

TEST(LearnFormat, SaysWhatAFormatCannotWrite) {
  const auto cannot = [](const std::string& name) {
    const auto described = Bind(CallTemplateOf(name)).chat->DescribeCalls();
    return Json::parse(described.value())["arguments"]["cannot_write"];
  };
  EXPECT_EQ(cannot("hermes"), Json::array());
  EXPECT_EQ(cannot("parameters"), Json::array());
  CallTemplate unescaped = CallTemplateOf("python");
  const std::string program =
      "{{- '<|list|>[' -}}{%- for c in m.tool_calls -%}{{- c.function.name + '(' -}}"
      "{%- for k, v in c.function.arguments|items -%}{{- k + \"='\" -}}{{- v -}}{{- \"'\" -}}"
      "{%- endfor -%}{{- ')' -}}{%- endfor -%}{{- ']<|/list|>' -}}";
  unescaped.calls = program.c_str();
  const Json found =
      Json::parse(Bind(unescaped).chat->DescribeCalls().value())["arguments"]["cannot_write"];
  EXPECT_THAT(found.dump(), HasSubstr("texts with quotes"));
  EXPECT_THAT(found.dump(), HasSubstr("numbers"));
}

TEST(LearnFormat, RefusesByNameWhatItCannotRead) {
  CallTemplate none = CallTemplateOf("hermes");
  none.calls = "{{- 'called' -}}";
  const BoundTemplate bound = Bind(none);
  const std::string words =
      "tools: the chat template hermes writes calls in no way that ng can "
      "read back";
  EXPECT_EQ(bound.chat->DescribeCalls().status().message(), words);
  EXPECT_EQ(bound.chat->ReadAnswer({.messages = kAsk, .tools = kTools}).status().message(), words);
  EXPECT_TRUE(bound.chat->ReadAnswer({.messages = kAsk}).ok());
}

TEST(LearnFormat, ShowsATemplateArgumentsAsItTakesThem) {
  const BoundTemplate bound = Bind(CallTemplateOf("hermes"));
  const auto render = [&](const char* arguments) {
    const Json call = {{"id", "a"}, {"function", {{"name", "look"}, {"arguments", arguments}}}};
    Json messages = Json::parse(kAsk);
    messages.push_back({{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}});
    return bound.chat->Render({.messages = messages.dump(), .tools = kTools}).value();
  };
  EXPECT_THAT(render("{\"city\": \"Rome\"}"), HasSubstr("\"arguments\": {\"city\": \"Rome\"}}"));
  EXPECT_THAT(render("no JSON"), HasSubstr("\"arguments\": \"no JSON\"}"));
}

TEST(ValueReader, ReadsTheWordsOfPython) {
  const calls::Notation python = {.python = true};
  EXPECT_EQ(calls::ReadValue(R"({'a': [True, None, -1.5e3, "x'y", 'z\x41\u00e9\'\"']})", python),
            R"({"a": [true, null, -1.5e3, "x'y", "zA\u00e9'\""]})");
  for (const char* const wrong : {"{'a'}", "{a: 1}", "[1,]", "nothing", "1 2", "'a", ""}) {
    EXPECT_EQ(calls::ReadValue(wrong, python), std::nullopt) << wrong;
  }
  EXPECT_EQ(calls::ReadValue("{'a': 1}", {}), std::nullopt);
}

// A template keeps the last conversation that it has written; another one is another one.
TEST(CallsOfTemplates, AreThoseOfTheConversationThatIsAskedFor) {
  constexpr const char* kTools =
      R"([{"type": "function", "function": {"name": "look", "parameters": {"type": "object",
          "properties": {"city": {"type": "string"}}}}}])";
  constexpr const char* kOthers = R"([{"type": "function", "function": {"name": "jump"}}])";
  const BoundTemplate bound = Bind(CallTemplateOf("hermes"));
  const Conversation one = {.messages = R"([{"role": "user", "content": "ask"}])", .tools = kTools};
  Conversation other = one;
  other.tools = kOthers;
  Conversation said = one;
  said.messages = R"([{"role": "user", "content": "ask"}, {"role": "assistant", "content": "so"}])";
  said.asks = false;
  said.goes_on = true;
  const auto grammar = [&](const Conversation& of, const CallChoice& choice) {
    return bound.chat->CallGrammar(of, choice).value();
  };
  const std::string of_one = grammar(one, {.must = true});
  const std::string of_other = grammar(other, {.must = true});
  EXPECT_NE(of_one, of_other);
  EXPECT_EQ(grammar(one, {.must = true}), of_one);
  EXPECT_EQ(grammar(one, {.must = true, .tools = kOthers}), of_other);
  const std::string text = bound.chat->Render(one).value();
  const std::string unended = bound.chat->Render(said).value();
  EXPECT_EQ(unended, text + "so");
  EXPECT_TRUE(bound.chat->ReadAnswer(said).ok());
  EXPECT_EQ(bound.chat->Render(said).value(), unended);
  EXPECT_EQ(bound.chat->Render(one).value(), text);
}

}  // namespace
}  // namespace ng::test
