// Threads of Anthropic's API: conversations of which a request sends what is new.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "apps/serve/answers/kept_responses.h"
#include "apps/serve/requests/openai_requests.h"

namespace ng::serve {
namespace {

using ::testing::HasSubstr;

Parsed<Request> ParseOfThread(const std::string& more,
                              const std::string& messages = R"([{"role":"user","content":"hi"}])") {
  return ParseRequest(
      kMessages, absl::StrCat(R"({"model":"m","max_tokens":5,"messages":)", messages, more, "}"));
}

std::string ParamOfThread(const Parsed<Request>& parsed) {
  const auto* const error = std::get_if<ApiError>(&parsed);
  return error == nullptr ? "" : error->param;
}

TEST(Threads, AreCreatedAndGoneOnWith) {
  const Request created = std::get<Request>(
      ParseOfThread(R"(,"thread":{"type":"create"},"tools":[{"name":"f","input_schema":{}}],)"
                    R"("tool_choice":{"type":"none"})"));
  EXPECT_TRUE(created.store);
  EXPECT_EQ(created.conversation.previous, "");
  EXPECT_EQ(created.conversation.tools, "");
  EXPECT_THAT(created.conversation.thread_tools, HasSubstr(R"("name":"f")"));

  const Request went_on = std::get<Request>(ParseOfThread(
      R"(,"thread":{"type":"continue","previous_message_id":"p"},"tool_choice":{"type":"any"})",
      R"([{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}])"));
  EXPECT_TRUE(went_on.store);
  EXPECT_EQ(went_on.conversation.previous, "p");
  EXPECT_EQ(went_on.conversation.choice.mode, ToolChoice::Mode::kRequired);
  EXPECT_FALSE(std::get<Request>(ParseOfThread("")).store);
}

TEST(Threads, WhatTheyCannotHaveIsRefused) {
  EXPECT_EQ(ParamOfThread(ParseOfThread(R"(,"thread":{"type":"fork"})")), "thread.type");
  EXPECT_EQ(ParamOfThread(ParseOfThread(R"(,"thread":{"type":"continue"})")),
            "thread.previous_message_id");
  EXPECT_EQ(ParamOfThread(ParseOfThread(R"(,"thread":{"type":"create","x":1})")), "thread.x");
  const std::string went_on = R"(,"thread":{"type":"continue","previous_message_id":"p"})";
  EXPECT_EQ(ParamOfThread(ParseOfThread(absl::StrCat(went_on, R"(,"system":"s")"))), "system");
  EXPECT_EQ(ParamOfThread(ParseOfThread(absl::StrCat(went_on, R"(,"tools":[])"))), "tools");
}

// A thread with a call and a tool, and what is sent next.
Parsed<ConversationFields> WentOn(const std::string& messages, ToolChoice choice = {},
                                  bool with_tools = true) {
  KeptConversation before = {
      R"([{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[)"
      R"({"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]}])"};
  if (with_tools) before.tools = R"([{"type":"function","function":{"name":"f"}}])";
  ConversationFields sent;
  sent.messages = messages;
  sent.choice = std::move(choice);
  return InThread(before, std::move(sent));
}

constexpr const char* kResult = R"([{"role":"tool","content":"r","tool_call_id":"t"}])";

TEST(Threads, GoOnWithTheirToolsAndTheNamesOfCalls) {
  const auto whole = std::get<ConversationFields>(WentOn(kResult));
  const Json messages = Json::parse(whole.messages);
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[2]["name"], "f");
  EXPECT_THAT(whole.tools, HasSubstr(R"("name":"f")"));
  EXPECT_EQ(whole.thread_tools, whole.tools);
  const auto none =
      std::get<ConversationFields>(WentOn(kResult, {.mode = ToolChoice::Mode::kNone}));
  EXPECT_EQ(none.tools, "");
  EXPECT_EQ(none.thread_tools, whole.tools);

  const auto param = [](const Parsed<ConversationFields>& parsed) {
    return std::get<ApiError>(parsed).param;
  };
  EXPECT_EQ(param(WentOn(R"([{"role":"tool","content":"r","tool_call_id":"u"}])")),
            "messages.content.tool_use_id");
  EXPECT_EQ(param(WentOn(kResult, {.mode = ToolChoice::Mode::kRequired, .names = {"g"}})),
            "tool_choice");
  EXPECT_EQ(param(WentOn(kResult, {.mode = ToolChoice::Mode::kRequired}, /*with_tools=*/false)),
            "tool_choice");
}

}  // namespace
}  // namespace ng::serve
