// A budget of thoughts, as each API's clients and ng-run's users ask for it. The chat template
// begins thoughts in the prompt, so that the tiny model has some.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/integration/run_support.h"
#include "tests/integration/serve/served_tools.h"
#include "tests/integration/serve/server.h"

namespace ng::test {
namespace {

using Ids = std::vector<int32_t>;

constexpr const char* kEnd = "</think>";
constexpr int64_t kBudget = 7;

class ServedThoughts : public ServedTools {
 protected:
  static std::string Thinking(std::string program) {
    constexpr std::string_view kAsks = "[assistant]";
    return program.insert(program.rfind(kAsks) + kAsks.size(), "<think>");
  }
  // A chat at temperature 2, of which the answer's ids are shown.
  static Json Asked() {
    return {{"messages", {{{"role", "user"}, {"content", "ask"}}}},
            {"temperature", 2},
            {"seed", 5},
            {"max_tokens", 40},
            {"return_token_ids", true}};
  }
  Ids IdsOf(const std::string& text) const {
    return thinker_.Post("/tokenize", {{"prompt", text}})["tokens"];
  }
  // Fails unless so many ids come before those that close thoughts, and more behind them.
  void ExpectClosed(const Ids& ids, size_t budget) const {
    const Ids close = IdsOf(kEnd);
    ASSERT_GT(ids.size(), budget + close.size());
    const auto found = std::search(ids.begin(), ids.end(), close.begin(), close.end());
    EXPECT_EQ(found - ids.begin(), static_cast<ptrdiff_t>(budget));
  }

  const std::string thinking_ =
      folder_.Write("thinking.jinja",
                    Thinking(Program("<call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
                                     "{{ c.function.arguments|tojson }}}</call>")));
  const Server thinker_{{"--tokenizer.chat_template=" + thinking_}};
};

TEST_F(ServedThoughts, AreClosedInEveryApi) {
  // Without a budget this model thinks on.
  const Json free = thinker_.Post("/v1/chat/completions", Asked())["choices"][0];
  EXPECT_EQ(free["message"]["content"].get<std::string>(), "");
  const auto with = [](const char* name, const Json& value) {
    Json body = Asked();
    body[name] = value;
    return body;
  };
  Json message;
  for (const Json& body :
       {with("reasoning", {{"max_tokens", kBudget}}), with("thinking_budget", kBudget),
        with("thinking", {{"type", "enabled"}, {"budget_tokens", kBudget}}),
        with("reasoning_budget", kBudget), with("thinking_token_budget", kBudget)}) {
    const Json choice = thinker_.Post("/v1/chat/completions", body)["choices"][0];
    ExpectClosed(choice["token_ids"], kBudget);
    EXPECT_NE(choice["message"]["content"], "");
    EXPECT_TRUE(message.is_null() || message == choice["message"]) << choice;
    message = choice["message"];
  }
  EXPECT_EQ(thinker_.Post("/v1/chat/completions", with("thinking_budget", -1))["choices"][0], free);
  ExpectClosed(
      thinker_.Post("/v1/chat/completions", with("thinking_budget", 0))["choices"][0]["token_ids"],
      0);

  // The other APIs give the same parts.
  Json response = {{"input", "ask"}, {"temperature", 2}, {"max_output_tokens", 40},
                   {"seed", 5},      {"store", false},   {"reasoning", {{"max_tokens", kBudget}}}};
  const Json items = thinker_.Post("/v1/responses", response)["output"];
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0]["content"][0]["text"], message["reasoning_content"]);
  EXPECT_EQ(items[1]["content"][0]["text"], message["content"]);
  Json blocks = Asked();
  blocks.erase("return_token_ids");
  blocks["thinking"] = {{"type", "enabled"}, {"budget_tokens", kBudget}};
  const Json content = thinker_.Post("/v1/messages", blocks)["content"];
  ASSERT_EQ(content.size(), 2U);
  EXPECT_EQ(content[0]["thinking"], message["reasoning_content"]);
  EXPECT_EQ(content[1]["text"], message["content"]);
  const Json ollama = {
      {"messages", blocks["messages"]},
      {"stream", false},
      {"options",
       {{"temperature", 2}, {"seed", 5}, {"num_predict", 40}, {"thinking_budget", kBudget}}}};
  const Json said = thinker_.Post("/api/chat", ollama)["message"];
  EXPECT_EQ(said["thinking"], message["reasoning_content"]);
  EXPECT_EQ(said["content"], message["content"]);
}

TEST_F(ServedThoughts, AreTheSameInBatchesAndStreamsAndInNgRun) {
  Json body = Asked();
  body["thinking_budget"] = kBudget;
  const Json alone = thinker_.Post("/v1/chat/completions", body)["choices"][0];
  body["n"] = 8;
  const Json choices = thinker_.Post("/v1/chat/completions", body)["choices"];
  EXPECT_EQ(choices[0], alone);
  for (const Json& choice : choices) {
    const Ids ids = choice["token_ids"];
    if (ids.size() > kBudget + IdsOf(kEnd).size()) ExpectClosed(ids, kBudget);
  }
  body["n"] = 1;
  std::string reasoning;
  std::string content;
  for (const Json& event : thinker_.Stream("/v1/chat/completions", body)) {
    const Json& delta = event["choices"][0]["delta"];
    reasoning += delta.value("reasoning_content", "");
    if (delta.contains("content") && delta["content"].is_string()) {
      content += delta["content"].get<std::string>();
    }
  }
  EXPECT_EQ(reasoning, alone["message"]["reasoning_content"]);
  EXPECT_EQ(content, alone["message"]["content"]);

  Ids ids = alone["prompt_token_ids"];
  const Ids answer = alone["token_ids"];
  ids.insert(ids.end(), answer.begin(), answer.end());
  const Arguments arguments = {"--output=jsonl",
                               "--message=ask",
                               "--tokenizer.chat_template=" + thinking_,
                               "--temp=2",
                               "--seed=5",
                               "--run.max_new_tokens=40",
                               "--reasoning-budget=7"};
  for (const Arguments& more : {Arguments(), Arguments{"--drafter.name=ngram"}}) {
    const Result run = NgRun(Demo() + arguments + more);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(JsonLines(run.out)[0]["ids"], Json(ids));
  }
}

TEST_F(ServedThoughts, AreClosedBeforeACallThatMustCome) {
  Json body = Asked();
  body["max_tokens"] = 200;
  body["thinking_budget"] = kBudget;
  body["tool_choice"] = "required";
  body["parallel_tool_calls"] = false;
  body["tools"] = {{{"type", "function"},
                    {"function",
                     {{"name", "look"},
                      {"parameters",
                       {{"type", "object"},
                        {"properties", {{"city", {{"enum", {"Rome", "Oslo"}}}}}},
                        {"required", {"city"}},
                        {"additionalProperties", false}}}}}}};
  const Json choice = thinker_.Post("/v1/chat/completions", body)["choices"][0];
  ExpectClosed(choice["token_ids"], kBudget);
  ASSERT_TRUE(choice["message"].contains("tool_calls")) << choice;
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "look");
  // A model that marks no thoughts has none.
  Json plain = {{"prompt", "ask"}, {"max_tokens", 3}, {"thinking_budget", 0}};
  EXPECT_EQ(Server().Ask("/v1/completions", plain).status, 200);
}

// A form holds an answer from its first token on, unless the request itself asks for thoughts.
TEST_F(ServedThoughts, ComeBeforeAFormWhereTheyAreAskedFor) {
  const auto message_of = [&](Json body) {
    const Json choice = thinker_.Post("/v1/chat/completions", body)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop") << choice;
    return choice["message"];
  };
  Json schema = Asked();
  schema["response_format"] = {{"type", "json_schema"},
                               {"json_schema", {{"name", "x"}, {"schema", {{"enum", {"a", 5}}}}}}};
  for (const Json& said : {Json(), Json({{"reasoning_effort", "none"}}),
                           Json({{"thinking_budget", 0}}), Json({{"enable_thinking", false}})}) {
    Json body = schema;
    if (!said.is_null()) body.update(said);
    const Json message = message_of(body);
    EXPECT_TRUE(message["content"] == "\"a\"" || message["content"] == "5") << message;
    EXPECT_FALSE(message.contains("reasoning_content")) << message;
  }
  Json rules = Asked();
  rules["guided_regex"] = "none at all";
  for (const Json& form : {schema, rules}) {
    const auto is_held = [&](const Json& message) {
      const Json& content = message["content"];
      return form == rules ? content == "none at all" : content == "\"a\"" || content == "5";
    };
    Json thinks = form;
    thinks["thinking_budget"] = kBudget;
    const Json message = message_of(thinks);
    EXPECT_TRUE(is_held(message)) << message;
    EXPECT_NE(message.value("reasoning_content", ""), "") << message;
    // Asked for without a budget, they go on as long as the model thinks.
    Json on = form;
    on["reasoning_effort"] = "high";
    const Json choice = thinker_.Post("/v1/chat/completions", on)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "length");
    EXPECT_NE(choice["message"].value("reasoning_content", ""), "") << choice;
  }
  // A grammar says all of the answer, thoughts that it writes itself too.
  Json grammar = Asked();
  grammar["thinking_budget"] = kBudget;
  grammar["grammar"] = "root ::= \"hm</think>well\"";
  const Json said = message_of(grammar);
  EXPECT_EQ(said["reasoning_content"], "hm");
  EXPECT_EQ(said["content"], "well");
}

}  // namespace
}  // namespace ng::test
