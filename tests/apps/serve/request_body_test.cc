// Bodies whose tools were read before: a request is the same as one that is read for the first
// time.
#include "apps/serve/requests/request_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/serve/requests/openai_requests.h"

namespace ng::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr char kTools[] =
    R"([{"type":"function","function":{"name":"f","description":"a \"b\" ]}, {","parameters":{"type":"object"}}}])";
constexpr char kFlatTools[] =
    R"([{"type":"function","name":"f","parameters":{"type":"object","properties":{"x":{}}}}])";
constexpr char kBlockTools[] = R"([{"name":"f","input_schema":{"type":"object"}}])";

// What a test sees of a request, or its error.
std::string Seen(const Parsed<Request>& parsed) {
  if (const auto* const error = std::get_if<ApiError>(&parsed)) {
    return absl::StrCat(error->message, " | ", error->param, " | ", error->code);
  }
  const auto& request = std::get<Request>(parsed);
  return absl::StrCat(request.conversation.tools, " | ", request.conversation.messages, " | ",
                      request.conversation.choice.names.size(), " | ", request.said.dump());
}

// Reads a body without and with tools that are known.
void ExpectTheSame(Api api, const std::string& body, KnownTools& known) {
  const std::string wanted = Seen(ParseRequest(api, body));
  EXPECT_EQ(Seen(ParseRequest(api, body, &known)), wanted) << body;
  EXPECT_EQ(Seen(ParseRequest(api, body, &known)), wanted) << body;
}

std::string Chat(const std::string& more) {
  return absl::StrCat(R"({"model":"m","messages":[{"role":"user","content":"\"tools\":[1]"}])",
                      more, "}");
}

TEST(KnownTools, AreFoundAgain) {
  KnownTools known(8, 1 << 20);
  const std::string body = Chat(absl::StrCat(R"(,"tools":)", kTools));
  EXPECT_EQ(known.Find(kTools), nullptr);
  ASSERT_TRUE(std::holds_alternative<Request>(ParseRequest(kChat, body, &known)));
  ASSERT_NE(known.Find(kTools), nullptr);
  EXPECT_EQ(known.Find(kTools)->dump(), Json::parse(kTools).dump());
  const auto read = std::get<RequestBody>(ReadBody(body, &known));
  EXPECT_EQ(read.tools, known.Find(kTools));
  EXPECT_TRUE(read.json["tools"].is_null());
}

TEST(KnownTools, ChangeNothingInARequest) {
  KnownTools known(8, 1 << 20);
  const std::string tools = absl::StrCat(R"(,"tools": )", kTools);
  for (const std::string& more :
       {tools,
        absl::StrCat(tools, " "),
        absl::StrCat(tools, "\n ,\"temperature\":0"),
        absl::StrCat(tools, R"(,"tool_choice":{"type":"function","function":{"name":"f"}})"),
        absl::StrCat(tools, R"(,"tool_choice":{"type":"function","function":{"name":"g"}})"),
        absl::StrCat(R"(,"tool_choice":"required")", tools),
        absl::StrCat(tools, R"(,"parallel_tool_calls":false)"),
        absl::StrCat(tools, tools),
        absl::StrCat(tools, R"(,"\u0074ools":[])"),
        absl::StrCat(R"(,"\u0074ools":[])", tools),
        absl::StrCat(tools, R"(,"x":{"tools":[]})"),
        absl::StrCat(tools, R"(,"temperature":3e)"),
        absl::StrCat(tools, R"(,"temperature":"hot")"),
        absl::StrCat(tools, "}"),
        absl::StrCat(tools, ","),
        absl::StrCat(R"(,"stop":[})", tools),
        std::string(R"(,"tools":null)"),
        std::string(R"(,"tools":{})"),
        std::string(R"(,"tools":[1,])"),
        std::string(R"(,"tools":)")}) {
    ExpectTheSame(kChat, Chat(more), known);
  }
  for (const std::string& body :
       {std::string(), std::string("[]"), absl::StrCat("{", tools, "}"),
        absl::StrCat(R"({"tools":)", kTools), absl::StrCat(R"("tools":)", kTools)}) {
    ExpectTheSame(kChat, body, known);
  }
}

TEST(KnownTools, AreThoseOfEveryApi) {
  KnownTools known(8, 1 << 20);
  const std::string flat = absl::StrCat(R"({"model":"m","input":"x","tools":)", kFlatTools, "}");
  ExpectTheSame(kResponses, flat, known);
  EXPECT_THAT(Seen(ParseRequest(kResponses, flat, &known)), HasSubstr(R"("properties":{"x":{}})"));
  const std::string messages =
      R"({"model":"m","max_tokens":4,"messages":[{"role":"user","content":"x"}])";
  const std::string blocks = absl::StrCat(messages, R"(,"tools":)", kBlockTools, "}");
  ExpectTheSame(kMessages, blocks, known);
  ExpectTheSame(kCountTokens, blocks, known);
  ExpectTheSame(kMessages, absl::StrCat(messages, R"(,"tools":)", kTools, "}"), known);
  ExpectTheSame(kOllamaChat, Chat(absl::StrCat(R"(,"tools":)", kTools)), known);
  // Where there is no such field, also behind another one.
  ExpectTheSame(kCompletions,
                absl::StrCat(R"({"z":1,"model":"m","prompt":"x","tools":)", kTools, "}"), known);
  ExpectTheSame(kCompletions, absl::StrCat(R"({"model":"m","prompt":"x","tools":)", kTools, "}"),
                known);
}

TEST(FindMember, IsTheTextOfItsValue) {
  EXPECT_THAT(FindMember(R"({"a":1,"tools":[1, "]"]})", "tools"),
              Optional(std::string_view(R"([1, "]"])")));
  EXPECT_THAT(FindMember(R"( { "tools" : {"x":","} , "a":2})", "tools"),
              Optional(std::string_view(R"({"x":","} )")));
  EXPECT_THAT(FindMember(R"({"a":{"tools":1},"b":"\"tools\":2"})", "tools"), std::nullopt);
  for (const char* const text :
       {"", "{", "{}", "[]", R"({"tools")", R"({"tools":)", R"({"tools":[)",
        R"({"tools":1,"tools":1})", R"({"tools":"\)", R"({"tools":1,)", R"({tools:1})"}) {
    EXPECT_THAT(FindMember(text, "tools"), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace ng::serve
