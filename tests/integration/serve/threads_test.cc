// Threads of Anthropic's /v1/messages: the server keeps a conversation, and is sent what is new.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/run_support.h"
#include "tests/integration/serve/served_tools.h"
#include "tests/integration/serve/server.h"

namespace ng::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kThreadPath = "/v1/messages";

class ServedThreads : public ServedTools {
 protected:
  static Json Saying(const std::string& answer, const Json& thread, const Json& content) {
    return {{"messages", {{{"role", "user"}, {"content", content}}}},
            {"grammar", GrammarOf(answer)},
            {"thread", thread},
            {"max_tokens", 400}};
  }
  static Json ResultOf(const Json& call) {
    return {{{"type", "tool_result"}, {"tool_use_id", call["id"]}, {"content", "sun"}}};
  }
  static Json After(const Json& answer) {
    return {{"type", "continue"}, {"previous_message_id", answer["id"]}};
  }
  static int TokensOf(const Json& answer) {
    return answer["usage"]["input_tokens"].get<int>() +
           answer["usage"]["cache_read_input_tokens"].get<int>();
  }
};

TEST_F(ServedThreads, TheServerHasWhatWasSaidBefore) {
  const std::string call = R"(So. <call>{"name": "look", "arguments": {"city": "Rome"}}</call>)";
  Json body = Saying(call, {{"type", "create"}}, "ask");
  body["system"] = "Be brief.";
  body["tools"] = {{{"name", "look"}, {"input_schema", Schema()}}};
  const Json first = server_.Post(kThreadPath, body);
  ASSERT_EQ(first["content"].size(), 2U);
  const Json second =
      server_.Post(kThreadPath, Saying(call, After(first), ResultOf(first["content"][1])));
  // Its tools are still there.
  ASSERT_EQ(second["stop_reason"], "tool_use");
  const Json third =
      server_.Post(kThreadPath, Saying("Sunny.", After(second), ResultOf(second["content"][1])));
  EXPECT_EQ(third["content"], Json({{{"type", "text"}, {"text", "Sunny."}}}));

  // The same without a thread.
  body.erase("thread");
  for (const Json& answer : {first, second}) {
    body["messages"].push_back({{"role", "assistant"}, {"content", answer["content"]}});
    body["messages"].push_back({{"role", "user"}, {"content", ResultOf(answer["content"][1])}});
  }
  EXPECT_EQ(TokensOf(server_.Post(kThreadPath, body)), TokensOf(third));

  // A stream is kept too, and a call can be asked for.
  Json streamed = Saying("Sunny.", After(second), ResultOf(second["content"][1]));
  streamed["stream"] = true;
  const std::string events = server_.Ask(kThreadPath, streamed).body;
  const size_t at = events.find("msg_");
  ASSERT_NE(at, std::string::npos);
  Json must = Saying("", After({{"id", events.substr(at, events.find('"', at) - at)}}), "and?");
  must.erase("grammar");
  must["temperature"] = 0;
  must["tool_choice"] = {{"type", "any"}, {"disable_parallel_tool_use", true}};
  EXPECT_EQ(server_.Post(kThreadPath, must)["content"][0]["name"], "look");
}

TEST_F(ServedThreads, OneThatIsNotKeptIsCreatedAgain) {
  const HttpResponse lost = server_.Ask(kThreadPath, Saying("x", After({{"id", "msg_0"}}), "ask"));
  EXPECT_EQ(lost.status, 404);
  const Json error = Json::parse(lost.body)["error"];
  EXPECT_EQ(error["type"], "not_found_error");
  EXPECT_EQ(error["details"], Json({{"error_code", "thread_not_found"}}));
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("msg_0"));
  // What was not to be kept is not.
  Json plain = Saying("x", nullptr, "ask");
  const Json answer = server_.Post(kThreadPath, plain);
  EXPECT_EQ(server_.Ask(kThreadPath, Saying("x", After(answer), "ask")).status, 404);
}

}  // namespace
}  // namespace ng::test
