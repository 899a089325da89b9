// /v1/responses with tools and thoughts, and conversations that the server keeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/integration/run_support.h"
#include "tests/integration/serve/served_tools.h"
#include "tests/integration/serve/server.h"
#include "tests/support/http_client.h"

namespace ng::test {
namespace {

using ::testing::ElementsAre;

constexpr const char* kPathOfResponses = "/v1/responses";

class ServedResponses : public ServedTools {
 protected:
  // The answer is this text.
  static Json AskingFor(const std::string& answer, const Json& input = "ask") {
    return {{"input", input},
            {"grammar", GrammarOf(answer)},
            {"tools", {{{"type", "function"}, {"name", "look"}, {"parameters", Schema()}}}},
            {"max_output_tokens", 400}};
  }
  static std::vector<std::string> TypesOf(const Json& items) {
    std::vector<std::string> types;
    for (const Json& item : items) types.push_back(item["type"]);
    return types;
  }
};

TEST_F(ServedResponses, AnswersAreItems) {
  const Json answer = server_.Post(kPathOfResponses, AskingFor(kTwoCalls));
  EXPECT_EQ(answer["status"], "completed");
  const Json& output = answer["output"];
  ASSERT_THAT(TypesOf(output),
              ElementsAre("reasoning", "message", "function_call", "function_call"));
  EXPECT_EQ(output[0]["content"][0], Json({{"type", "reasoning_text"}, {"text", "hm"}}));
  EXPECT_EQ(output[1]["content"][0]["text"], "So.");
  EXPECT_EQ(output[2]["name"], "look");
  EXPECT_EQ(output[2]["arguments"], R"({"city": "Rome"})");
  EXPECT_NE(output[2]["call_id"], output[3]["call_id"]);
  EXPECT_EQ(answer["tools"][0]["name"], "look");
  EXPECT_EQ(answer["tool_choice"], "auto");
  EXPECT_EQ(answer["store"], true);

  // With the items sent back, and with the id of the response alone, the prompt is the same.
  Json results = Json::array();
  for (const int i : {2, 3}) {
    results.push_back(
        {{"type", "function_call_output"}, {"call_id", output[i]["call_id"]}, {"output", "sun"}});
  }
  Json input = {{{"role", "user"}, {"content", "ask"}}};
  for (const Json& items : {output, results}) input.insert(input.end(), items.begin(), items.end());
  const Json sent = server_.Post(kPathOfResponses, AskingFor("Sunny.", input));
  EXPECT_EQ(sent["output"][0]["content"][0]["text"], "Sunny.");
  Json kept = AskingFor("Sunny.", results);
  kept["previous_response_id"] = answer["id"];
  const Json went_on = server_.Post(kPathOfResponses, kept);
  EXPECT_EQ(went_on["usage"]["input_tokens"], sent["usage"]["input_tokens"]);
  EXPECT_EQ(went_on["output"][0]["content"][0]["text"], "Sunny.");
  EXPECT_EQ(went_on["previous_response_id"], answer["id"]);
}

TEST_F(ServedResponses, ACallIsForced) {
  const Json look = {{"type", "function"}, {"name", "look"}};
  Json tool = look;
  tool["parameters"] = {{"const", {{"city", "Rome"}}}};
  for (const Json& choice : {look, Json("required")}) {
    const Json answer = server_.Post(kPathOfResponses, {{"input", "ask"},
                                                        {"tools", {tool}},
                                                        {"tool_choice", choice},
                                                        {"parallel_tool_calls", false},
                                                        {"temperature", 2},
                                                        {"max_output_tokens", 200}});
    EXPECT_EQ(answer["status"], "completed");
    ASSERT_EQ(answer["output"].size(), 1U) << answer;
    EXPECT_EQ(answer["output"][0]["name"], "look");
    EXPECT_EQ(Json::parse(answer["output"][0]["arguments"].get<std::string>()),
              Json({{"city", "Rome"}}));
    EXPECT_EQ(answer["tool_choice"], choice);
  }
}

TEST_F(ServedResponses, AStreamAddsUpToTheWhole) {
  Json body = AskingFor(kTwoCalls);
  const Json whole = server_.Post(kPathOfResponses, body);
  body["stream"] = true;
  const HttpResponse response = server_.Ask(kPathOfResponses, body);
  ASSERT_EQ(response.status, 200);
  Json output = Json::array();
  std::vector<std::string> types;
  Json last;
  for (const std::string& text : Events(response.body)) {
    const Json event = Json::parse(text);
    const std::string type = event["type"];
    EXPECT_EQ(event["sequence_number"].get<int>(),
              last.is_null() ? 0 : last["sequence_number"].get<int>() + 1);
    last = event;
    const std::string name = type.substr(type.find('.') + 1);
    if (types.empty() || types.back() != name) types.push_back(name);  // each run of deltas once
    if (name == "output_item.added") {
      EXPECT_EQ(event["output_index"], output.size());
      output.push_back(event["item"]);
    } else if (name == "content_part.added") {
      output.back()["content"].push_back(event["part"]);
    } else if (name == "function_call_arguments.delta") {
      EXPECT_EQ(event["item_id"], output.back()["id"]);
      output.back()["arguments"] =
          output.back()["arguments"].get<std::string>() + event["delta"].get<std::string>();
    } else if (name == "reasoning_text.delta" || name == "output_text.delta") {
      Json& said = output.back()["content"][0]["text"];
      said = said.get<std::string>() + event["delta"].get<std::string>();
    } else if (name == "output_item.done") {
      output.back()["status"] = "completed";
      EXPECT_EQ(event["item"], output.back());
    }
  }
  EXPECT_THAT(types,
              ElementsAre("created", "in_progress", "output_item.added", "content_part.added",
                          "reasoning_text.delta", "reasoning_text.done", "content_part.done",
                          "output_item.done", "output_item.added", "content_part.added",
                          "output_text.delta", "output_text.done", "content_part.done",
                          "output_item.done", "output_item.added", "function_call_arguments.delta",
                          "function_call_arguments.done", "output_item.done", "output_item.added",
                          "function_call_arguments.delta", "function_call_arguments.done",
                          "output_item.done", "completed"));
  EXPECT_EQ(last["response"]["output"], output);
  for (size_t i = 0; i < output.size(); ++i) {
    for (const char* const name : {"id", "call_id"}) output[i].erase(name);
    Json expected = whole["output"][i];
    for (const char* const name : {"id", "call_id"}) expected.erase(name);
    EXPECT_EQ(output[i], expected);
  }
}

TEST_F(ServedResponses, KeepsTheConversationsThatAreToBeKept) {
  const Server server({"--serve.responses=1", "--tokenizer.chat_template=" + template_});
  const auto error = [&](const Json& id) {
    Json body = AskingFor("x");
    body["previous_response_id"] = id;
    const HttpResponse response = server.Ask(kPathOfResponses, body);
    return response.status == 200 ? "" : Json::parse(response.body)["error"]["code"];
  };
  Json not_kept = AskingFor("x");
  not_kept["store"] = false;
  EXPECT_EQ(error(server.Post(kPathOfResponses, not_kept)["id"]), "previous_response_not_found");
  const Json first = server.Post(kPathOfResponses, AskingFor("x"))["id"];
  const Json second = server.Post(kPathOfResponses, AskingFor("x"))["id"];
  EXPECT_EQ(error(first), "previous_response_not_found");
  EXPECT_EQ(error(second), "");
}

}  // namespace
}  // namespace ng::test
