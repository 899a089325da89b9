// Chats with tools: what the model writes as calls and thoughts reaches the client as such, whole
// and streamed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
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
  EXPECT_EQ(message["reasoning"], "hm");
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
    EXPECT_EQ(delta.value("reasoning", ""), delta.value("reasoning_content", ""));
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

// A question at temperature 2 with two tools, the first of them with this schema.
Json Choosing(const Json& choice, const Json& schema, bool strict = false) {
  const auto tool = [&](const char* name, const Json& parameters) {
    return Json{{"type", "function"},
                {"function", {{"name", name}, {"parameters", parameters}, {"strict", strict}}}};
  };
  return {{"messages", {{{"role", "user"}, {"content", "ask"}}}},
          {"tools", {tool("look", schema), tool("jump", {{"type", "object"}})}},
          {"tool_choice", choice},
          {"temperature", 2},
          {"top_p", 0.9},
          {"seed", 3},
          {"max_tokens", 400}};
}

Json CitySchema() {
  return {{"type", "object"},
          {"properties", {{"city", {{"enum", {"Rome", "Oslo"}}}}}},
          {"required", {"city"}},
          {"additionalProperties", false}};
}

TEST_F(ServedTools, CallsAreForcedAndFitTheirSchemas) {
  const Json named = {{"type", "function"}, {"function", {{"name", "look"}}}};
  const Json allowed = {{"type", "allowed_tools"},
                        {"allowed_tools",
                         {{"mode", "required"},
                          {"tools", {{{"type", "function"}, {"function", {{"name", "look"}}}}}}}}};
  for (const Json& choice : {named, allowed}) {
    Json body = Choosing(choice, CitySchema());
    body["parallel_tool_calls"] = false;
    body["n"] = 3;
    const Json choices = server_.Post(kPath, body)["choices"];
    for (const Json& one : choices) {
      EXPECT_EQ(one["finish_reason"], "tool_calls");
      ASSERT_EQ(one["message"]["tool_calls"].size(), 1U);
      const Json& function = one["message"]["tool_calls"][0]["function"];
      EXPECT_EQ(function["name"], "look");
      const Json arguments = Json::parse(function["arguments"].get<std::string>());
      EXPECT_TRUE(arguments == Json({{"city", "Rome"}}) || arguments == Json({{"city", "Oslo"}}))
          << arguments;
    }
    // Alone it is the same answer, and a stream's pieces are that, too.
    body["n"] = 1;
    EXPECT_EQ(server_.Post(kPath, body)["choices"][0]["message"]["tool_calls"][0]["function"],
              choices[0]["message"]["tool_calls"][0]["function"]);
  }
  Json any = Choosing("required", CitySchema());
  any["max_tokens"] = 20;
  const Json begun = server_.Post(kPath, any)["choices"][0];
  EXPECT_EQ(begun["message"]["content"].get<std::string>().substr(0, 7), "<call>{") << begun;
}

// In calls as in other answers, whatever the model would go on with.
TEST_F(ServedTools, ObjectsHaveWhatTheirSchemaLists) {
  // How many properties beside the city six answers have.
  const auto others = [&](Json schema, bool called) {
    schema["required"] = {"city"};
    size_t n = 0;
    for (const int seed : {1, 2, 3, 4, 5, 6}) {
      Json body = Choosing({{"type", "function"}, {"function", {{"name", "look"}}}}, schema);
      body["parallel_tool_calls"] = false;
      body["seed"] = seed;
      if (!called) {
        body.erase("tools");
        body.erase("tool_choice");
        body["response_format"] = {{"type", "json_schema"},
                                   {"json_schema", {{"name", "x"}, {"schema", schema}}}};
      }
      const Json message = server_.Post(kPath, body)["choices"][0]["message"];
      const Json text = called ? message.at("tool_calls").at(0).at("function").at("arguments")
                               : message.at("content");
      const Json object = Json::parse(text.get<std::string>());
      EXPECT_TRUE(object.contains("city")) << object;
      n += object.size() - 1;
    }
    return n;
  };
  const Json listed = {{"type", "object"},
                       {"properties", {{"city", {{"enum", {"Rome", "Oslo"}}}}}}};
  Json open = listed;
  open["additionalProperties"] = {{"type", "null"}};
  open["propertyNames"] = {{"maxLength", 4}};
  open["maxProperties"] = 3;
  for (const bool called : {true, false}) {
    EXPECT_EQ(others(listed, called), 0U) << called;
    EXPECT_GT(others(open, called), 0U) << called;
  }
}

// Whoever else is served, and in however few steps.
TEST_F(ServedTools, AreTheSameInABatchAndWithDrafts) {
  const std::string option = "--tokenizer.chat_template=" + template_;
  const Server batch({option, "--cache.max_sequences=8"});
  const Server drafts({option, "--cache.max_sequences=8", "--drafter.name=ngram"});
  constexpr size_t kAnswers = 8;
  const auto ids_of = [](const Server& server, size_t i) {
    Json body = Choosing(i % 2 == 0 ? "required" : "auto", CitySchema());
    body["seed"] = i;
    body["max_tokens"] = 60;
    body["return_token_ids"] = true;
    return server.Post(kPath, body)["choices"][0]["token_ids"];
  };
  std::vector<Json> together(2 * kAnswers);
  {
    std::vector<std::jthread> clients;
    for (size_t i = 0; i < together.size(); ++i) {
      clients.emplace_back(
          [&, i] { together[i] = ids_of(i < kAnswers ? batch : drafts, i % kAnswers); });
    }
  }
  for (size_t i = 0; i < kAnswers; ++i) {
    const Json alone = ids_of(server_, i);
    EXPECT_GT(alone.size(), 8U);
    EXPECT_EQ(together[i], alone) << i;
    EXPECT_EQ(together[kAnswers + i], alone) << i;
  }
}

// The grammar that waits for a call leaves all other text, and its ids, as they are.
TEST_F(ServedTools, ThatAreNotCalledChangeNothing) {
  for (const int seed : {1, 2, 3, 4}) {
    Json body = Choosing("auto", CitySchema(), /*strict=*/true);
    body["seed"] = seed;
    body["max_tokens"] = 80;
    body["return_token_ids"] = true;
    const Json with = server_.Post(kPath, body)["choices"][0];
    body.erase("tools");
    body.erase("tool_choice");
    const Json without = server_.Post(kPath, body)["choices"][0];
    EXPECT_EQ(with["prompt_token_ids"], without["prompt_token_ids"]);
    EXPECT_EQ(with["token_ids"], without["token_ids"]);
    EXPECT_FALSE(with["message"].contains("tool_calls"));
  }
}

TEST_F(ServedTools, WhatCannotBeKeptIsRefusedOrSaid) {
  Json schema = CitySchema();
  schema["properties"]["city"] = {{"type", "string"}, {"pattern", "(?=x)"}, {"maxLength", 3}};
  const Json named = {{"type", "function"}, {"function", {{"name", "look"}}}};
  const HttpResponse refused = server_.Ask(kPath, Choosing(named, schema, /*strict=*/true));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(Json::parse(refused.body)["error"]["param"], "tools");
  EXPECT_THAT(refused.body, HasSubstr("the tool 'look' at #/properties/city/pattern: "));
  Json loose = Choosing(named, schema);
  loose["parallel_tool_calls"] = false;
  const Json message = server_.Post(kPath, loose)["choices"][0]["message"];
  EXPECT_EQ(message["tool_calls"].size(), 1U);
  EXPECT_THAT(server_.ReadLine(),
              HasSubstr("grammar: the tool 'look' at #/properties/city/pattern: "));
  Json form = Choosing("required", CitySchema());
  form["response_format"] = {{"type", "json_object"}};
  const HttpResponse both = server_.Ask(kPath, form);
  EXPECT_EQ(both.status, 400);
  EXPECT_EQ(Json::parse(both.body)["error"]["param"], "tool_choice");
}

// The template writes it all the same.
TEST_F(ServedTools, AHistoryThatItsFormatCannotWriteIsSaidOnce) {
  const std::string raw = folder_.Write(
      "raw.jinja",
      Program("<call><f={{ c.function.name }}>{%- for k, v in c.function.arguments|items -%}<p={{ "
              "k }}>{{ v if v is string else v|tojson }}</p>{%- endfor -%}</f></call>"));
  const Server server{{"--tokenizer.chat_template=" + raw, "--serve.log=text"}};
  const auto ask = [&](const std::string& city) {
    Json body = Asking("Sunny.");
    const Json arguments = {{"city", city}};
    const Json function = {{"name", "look"}, {"arguments", arguments.dump()}};
    body["messages"].push_back(
        {{"role", "assistant"},
         {"content", nullptr},
         {"tool_calls", {{{"id", "call00001"}, {"type", "function"}, {"function", function}}}}});
    body["messages"].push_back(
        {{"role", "tool"}, {"tool_call_id", "call00001"}, {"content", "sun"}});
    EXPECT_EQ(server.Post(kPath, body)["choices"][0]["message"]["content"], "Sunny.");
    return server.ReadLine();
  };
  EXPECT_THAT(ask("Rome"), HasSubstr("POST"));
  EXPECT_EQ(ask("</p>Rome"),
            "ng-serve: a call that was made before has texts with </p>, which the chat template "
            "raw.jinja cannot write: the model reads other arguments");
  EXPECT_THAT(server.ReadLine(), HasSubstr("POST"));
  EXPECT_THAT(ask("</p>Oslo"), HasSubstr("POST"));
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
