// Anthropic's /v1/messages as its clients see it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/run_support.h"
#include "tests/integration/serve/served_tools.h"
#include "tests/integration/serve/server.h"
#include "tests/support/http_client.h"

namespace ng::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kMessages = "/v1/messages";
constexpr const char* kCount = "/v1/messages/count_tokens";

class ServedMessages : public ServedTools {
 protected:
  // The answer is this text.
  static Json AskingFor(const std::string& answer) {
    return {{"messages", {{{"role", "user"}, {"content", "ask"}}}},
            {"grammar", GrammarOf(answer)},
            {"tools", {{{"name", "look"}, {"input_schema", Schema()}}}},
            {"max_tokens", 400}};
  }
  // The events of a stream, each with its name.
  std::vector<Json> EventsOf(Json body) const {
    body["stream"] = true;
    const HttpResponse response = server_.Ask(kMessages, std::move(body));
    EXPECT_EQ(response.status, 200) << response.body;
    std::vector<Json> events;
    for (const std::string& event : Events(response.body)) {
      events.push_back(Json::parse(event));
      EXPECT_THAT(response.body,
                  HasSubstr("event: " + events.back()["type"].get<std::string>() + "\n"));
    }
    return events;
  }
};

TEST_F(ServedMessages, AnswersAreBlocks) {
  const Json answer = server_.Post(kMessages, AskingFor(kTwoCalls));
  EXPECT_EQ(answer["type"], "message");
  EXPECT_EQ(answer["role"], "assistant");
  EXPECT_EQ(answer["stop_reason"], "tool_use");
  EXPECT_EQ(answer["stop_sequence"], nullptr);
  const Json& content = answer["content"];
  ASSERT_EQ(content.size(), 4U);
  EXPECT_EQ(content[0], Json({{"type", "thinking"}, {"thinking", "hm"}, {"signature", ""}}));
  EXPECT_EQ(content[1], Json({{"type", "text"}, {"text", "So."}}));
  EXPECT_EQ(content[2]["type"], "tool_use");
  EXPECT_EQ(content[2]["name"], "look");
  EXPECT_EQ(content[2]["input"], Json({{"city", "Rome"}}));
  EXPECT_EQ(content[3]["input"], Json({{"city", "Oslo"}}));
  EXPECT_NE(content[2]["id"], content[3]["id"]);

  // The answer and the tool's results are sent back as they came.
  Json next = AskingFor("Sunny.");
  next["messages"].push_back({{"role", "assistant"}, {"content", content}});
  Json results = Json::array();
  for (const int i : {2, 3}) {
    results.push_back(
        {{"type", "tool_result"}, {"tool_use_id", content[i]["id"]}, {"content", "sun"}});
  }
  next["messages"].push_back({{"role", "user"}, {"content", results}});
  const Json last = server_.Post(kMessages, next);
  EXPECT_EQ(last["content"], Json({{{"type", "text"}, {"text", "Sunny."}}}));
  EXPECT_EQ(last["stop_reason"], "end_turn");

  Json one = AskingFor(kTwoCalls);
  one["tool_choice"] = {{"type", "auto"}, {"disable_parallel_tool_use", true}};
  EXPECT_EQ(server_.Post(kMessages, one)["content"].size(), 3U);
}

TEST_F(ServedMessages, ACallIsForced) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "ask"}}}},
               {"tools", {{{"name", "look"}, {"input_schema", {{"const", {{"city", "Rome"}}}}}}}},
               {"temperature", 2},
               {"max_tokens", 200}};
  const Json named = {{"type", "tool"}, {"name", "look"}};
  for (Json choice : {named, Json{{"type", "any"}}}) {
    choice["disable_parallel_tool_use"] = true;
    body["tool_choice"] = choice;
    const Json answer = server_.Post(kMessages, body);
    EXPECT_EQ(answer["stop_reason"], "tool_use");
    ASSERT_EQ(answer["content"].size(), 1U) << answer;
    EXPECT_EQ(answer["content"][0]["name"], "look");
    EXPECT_EQ(answer["content"][0]["input"], Json({{"city", "Rome"}}));
  }
}

TEST_F(ServedMessages, AStreamAddsUpToTheWhole) {
  const Json whole = server_.Post(kMessages, AskingFor(kTwoCalls));
  const std::vector<Json> events = EventsOf(AskingFor(kTwoCalls));
  ASSERT_GE(events.size(), 4U);
  EXPECT_EQ(events.front()["type"], "message_start");
  EXPECT_EQ(events.front()["message"]["content"], Json::array());
  Json content = Json::array();
  bool open = false;
  std::string arguments;
  for (size_t i = 1; i + 2 < events.size(); ++i) {
    const Json& event = events[i];
    if (event["type"] == "content_block_start") {
      EXPECT_FALSE(open);
      open = true;
      EXPECT_EQ(event["index"], content.size());
      content.push_back(event["content_block"]);
      arguments.clear();
      continue;
    }
    EXPECT_TRUE(open);
    EXPECT_EQ(event["index"].get<size_t>() + 1, content.size());
    Json& block = content.back();
    if (event["type"] == "content_block_stop") {
      open = false;
      if (block["type"] == "tool_use") block["input"] = Json::parse(arguments);
      continue;
    }
    EXPECT_EQ(event["type"], "content_block_delta");
    const Json& delta = event["delta"];
    if (block["type"] == "tool_use") {
      EXPECT_EQ(delta["type"], "input_json_delta");
      arguments += delta["partial_json"].get<std::string>();
    } else {
      const std::string name = block["type"];  // text or thinking
      EXPECT_EQ(delta["type"], name == "text" ? "text_delta" : "thinking_delta");
      block[name] = block[name].get<std::string>() + delta[name].get<std::string>();
    }
  }
  EXPECT_FALSE(open);
  for (Json& block : content) block.erase("id");
  Json expected = whole["content"];
  for (Json& block : expected) block.erase("id");
  EXPECT_EQ(content, expected);
  const Json& delta = events[events.size() - 2];
  EXPECT_EQ(delta["type"], "message_delta");
  EXPECT_EQ(delta["delta"], Json({{"stop_reason", "tool_use"}, {"stop_sequence", nullptr}}));
  EXPECT_EQ(delta["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
  EXPECT_EQ(events.back(), Json({{"type", "message_stop"}}));
}

TEST_F(ServedMessages, SaysWhatEndedAnAnswer) {
  Json body = AskingFor("one END two");
  body["stop_sequences"] = {"ENDS", "END"};
  const Json stopped = server_.Post(kMessages, body);
  EXPECT_EQ(stopped["content"][0]["text"], "one ");
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "END");
  const std::vector<Json> events = EventsOf(body);
  EXPECT_EQ(events[events.size() - 2]["delta"]["stop_sequence"], "END");
  body["max_tokens"] = 2;
  const Json cut = server_.Post(kMessages, body);
  EXPECT_EQ(cut["stop_reason"], "max_tokens");
  EXPECT_EQ(cut["stop_sequence"], nullptr);
  EXPECT_EQ(cut["usage"]["output_tokens"], 2);
}

TEST_F(ServedMessages, ArgumentsThatAreNoObjectAreNotLost) {
  const Json answer =
      server_.Post(kMessages, AskingFor(R"(<call>{"name": "look", "arguments": {"city": "Ro)"));
  EXPECT_EQ(answer["content"][0]["input"], Json({{"arguments", R"({"city": "Ro)"}}));
}

TEST_F(ServedMessages, CountsTheTokensThatAnAnswerReads) {
  Json body = AskingFor("x");
  body["system"] = {{{"type", "text"}, {"text", "Be brief."}}};
  const Json usage = server_.Post(kMessages, body)["usage"];
  const int n = usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>();
  body.erase("grammar");
  body.erase("max_tokens");
  EXPECT_EQ(server_.Post(kCount, body), Json({{"input_tokens", n}}));
  const Json chat = {
      {"messages",
       {{{"role", "system"}, {"content", "Be brief."}}, {{"role", "user"}, {"content", "ask"}}}}};
  EXPECT_EQ(server_.Post("/tokenize", chat)["count"], n);
}

TEST_F(ServedMessages, TheBeginningOfAnAnswerGoesOn) {
  const Json begun = {
      {"messages",
       {{{"role", "user"}, {"content", "ask"}}, {{"role", "assistant"}, {"content", "So it"}}}}};
  const Json ids = server_.Post("/tokenize", begun)["tokens"];
  EXPECT_EQ(ids,
            server_.Post("/tokenize", {{"prompt", "[user]ask[end][assistant]So it"}})["tokens"]);
  EXPECT_EQ(server_.Post(kCount, begun)["input_tokens"], ids.size());
  // Each API goes on with the same text.
  const std::string text =
      server_.Post("/v1/completions",
                   {{"prompt", ids}, {"temperature", 0}, {"max_tokens", 9}})["choices"][0]["text"];
  Json body = begun;
  body["temperature"] = 0;
  body["max_tokens"] = 9;
  EXPECT_EQ(server_.Post(kMessages, body)["content"][0]["text"], text);
  EXPECT_EQ(server_.Post("/v1/chat/completions", body)["choices"][0]["message"]["content"], text);
  const Json response = {
      {"input", begun["messages"]}, {"temperature", 0}, {"max_output_tokens", 9}};
  EXPECT_EQ(server_.Post("/v1/responses", response)["output"][0]["content"][0]["text"], text);
}

TEST(ServeMessages, ErrorsAreInItsOwnWords) {
  const Server server({"--serve.key=sesame", "--serve.max_body_bytes=2000"});
  const auto ask = [&](const std::string& path, const std::string& body, const std::string& key,
                       int status) {
    const HttpResponse response =
        HttpClient(server.port()).Post(path, body, key.empty() ? "" : "x-api-key: " + key + "\r\n");
    EXPECT_EQ(response.status, status) << response.body;
    const Json json = Json::parse(response.body);
    EXPECT_THAT(Keys(json), ElementsAre("type", "error"));
    EXPECT_THAT(Keys(json["error"]), ElementsAre("type", "message"));
    EXPECT_EQ(json["type"], "error");
    return json["error"]["type"].get<std::string>();
  };
  const std::string hi =
      R"({"model":"demo","max_tokens":1,"messages":[{"role":"user","content":"x"}]})";
  EXPECT_EQ(ask(kMessages, hi, "", 401), "authentication_error");
  EXPECT_EQ(ask(kMessages, "{}", "sesame", 400), "invalid_request_error");
  EXPECT_EQ(
      ask(kMessages, R"({"model":"x","messages":[{"role":"user","content":"x"}]})", "sesame", 404),
      "not_found_error");
  EXPECT_EQ(ask("/v1/messages/batches", hi, "sesame", 404), "not_found_error");
  EXPECT_EQ(ask(kMessages, std::string(3000, ' '), "sesame", 413), "request_too_large");
  EXPECT_EQ(HttpClient(server.port())
                .Post("/messages", hi, "x-api-key: sesame\r\nanthropic-version: 2023-06-01\r\n")
                .status,
            200);
}

// While an answer waits for its turn its stream says that it will come, in the words of its API.
TEST(ServeMessages, AStreamThatWaitsShowsThatItLives) {
  const Server server({"--cache.max_sequences=1", "--serve.alive_seconds=1",
                       "--run.stop_ids=", "--cache.max_tokens=0", "--run.on_full=recompute",
                       "--serve.answer_seconds=0"});
  const auto begin = [](HttpClient* client, const std::string& path, const std::string& more) {
    const std::string body =
        absl::StrCat(R"({"model":"demo","stream":true,"max_tokens":100000,)", more, "}");
    client->Send(absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\nContent-Length: ",
                              body.size(), "\r\n\r\n", body));
  };
  const std::string messages = R"("messages":[{"role":"user","content":"x"}])";
  HttpClient first(server.port());
  begin(&first, "/v1/completions", R"("prompt":"To be")");
  ASSERT_TRUE(first.ReceiveUntil("data: "));
  HttpClient blocks(server.port());
  HttpClient chat(server.port());
  begin(&blocks, kMessages, messages);
  begin(&chat, "/v1/chat/completions", messages);
  EXPECT_TRUE(blocks.ReceiveUntil("event: message_start"));
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(blocks.ReceiveUntil("event: ping\ndata: {\"type\":\"ping\"}"));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(chat.ReceiveUntil(": the answer is on its way\n\n"));
}

}  // namespace
}  // namespace ng::test
