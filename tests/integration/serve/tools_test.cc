// Chats with tools: what the model writes as calls and thoughts reaches the client as such, whole
// and streamed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/integration/run_support.h"
#include "tests/integration/serve/served_tools.h"
#include "tests/integration/serve/server.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPath = "/v1/chat/completions";

TEST_F(ServedTools, CallsComeAsCalls) {
  const Json answer = server_.Post(kPath, Asking(kTwoCalls));
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  const Json& message = choice["message"];
  EXPECT_EQ(message["content"], "So.");
  EXPECT_EQ(message["reasoning_content"], "hm");
  ASSERT_EQ(message["tool_calls"].size(), 2U);
  const Json& call = message["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"], Json({{"name", "look"}, {"arguments", R"({"city": "Rome"})"}}));
  EXPECT_EQ(call["id"].get<std::string>().size(), 9U);
  EXPECT_NE(call["id"], message["tool_calls"][1]["id"]);

  // The answer and the tool's result are sent back as they came.
  Json next = Asking("Sunny.");
  next["messages"].push_back(message);
  for (const Json& one : message["tool_calls"]) {
    next["messages"].push_back({{"role", "tool"}, {"tool_call_id", one["id"]}, {"content", "sun"}});
  }
  const Json last = server_.Post(kPath, next);
  EXPECT_EQ(last["choices"][0]["message"]["content"], "Sunny.");
  EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
  EXPECT_FALSE(last["choices"][0]["message"].contains("tool_calls"));
}

TEST_F(ServedTools, StreamsAddUpToTheWhole) {
  const Json whole = server_.Post(kPath, Asking(kTwoCalls))["choices"][0]["message"];
  std::string content;
  std::string reasoning;
  std::vector<Json> calls;
  Json body = Asking(kTwoCalls);
  body["stream"] = true;
  std::string reason;
  for (const Json& event : server_.Stream(kPath, body)) {
    const Json& choice = event["choices"][0];
    if (choice["finish_reason"].is_string()) reason = choice["finish_reason"];
    const Json& delta = choice["delta"];
    if (delta.contains("content") && delta["content"].is_string()) {
      content += delta["content"].get<std::string>();
    }
    reasoning += delta.value("reasoning_content", "");
    for (const Json& piece : delta.value("tool_calls", Json::array())) {
      if (piece.contains("id")) {
        EXPECT_EQ(piece["index"], calls.size());
        EXPECT_EQ(piece["type"], "function");
        EXPECT_EQ(piece["function"]["arguments"], "");
        calls.push_back(piece["function"]);
        continue;
      }
      ASSERT_LT(piece["index"].get<size_t>(), calls.size());
      calls[piece["index"].get<size_t>()]["arguments"].get_ref<std::string&>() +=
          piece["function"]["arguments"].get<std::string>();
    }
  }
  EXPECT_EQ(reason, "tool_calls");
  EXPECT_EQ(content, whole["content"].get<std::string>());
  EXPECT_EQ(reasoning, whole["reasoning_content"].get<std::string>());
  ASSERT_EQ(calls.size(), whole["tool_calls"].size());
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i], whole["tool_calls"][i]["function"]) << i;
  }
}

TEST_F(ServedTools, OneCallIsGivenWhereOneIsAskedFor) {
  Json body = Asking(kTwoCalls);
  body["parallel_tool_calls"] = false;
  EXPECT_EQ(server_.Post(kPath, body)["choices"][0]["message"]["tool_calls"].size(), 1U);
}

TEST_F(ServedTools, WithoutToolsNothingIsCalled) {
  const std::string text = "<call>{\"name\": \"look\", \"arguments\": {}}</call>";
  const Json plain = server_.Post(kPath, Asking(text, /*with_tools=*/false))["choices"][0];
  EXPECT_EQ(plain["message"]["content"], text);
  EXPECT_EQ(plain["finish_reason"], "stop");
  Json none = Asking(text);
  none["tool_choice"] = "none";
  EXPECT_EQ(server_.Post(kPath, none)["choices"][0]["message"]["content"], text);
  // A call that is cut is not whole, and is said to be cut.
  Json cut = Asking(kTwoCalls);
  cut["max_tokens"] = 40;
  EXPECT_EQ(server_.Post(kPath, cut)["choices"][0]["finish_reason"], "length");
}

TEST_F(ServedTools, ATemplateWithoutCallsIsRefusedByName) {
  const Server server(
      {"--tokenizer.chat_template=" + folder_.Write("none.jinja", Program("called"))});
  const HttpResponse refused = server.Ask(kPath, Asking("x"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(Json::parse(refused.body)["error"]["param"], "tools");
  EXPECT_THAT(refused.body, HasSubstr("in no way that ng can read back"));
  EXPECT_EQ(server.Ask(kPath, Asking("x", /*with_tools=*/false)).status, 200);
}

}  // namespace
}  // namespace ng::test
