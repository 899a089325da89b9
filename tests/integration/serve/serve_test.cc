// ng-serve as its clients see it. Its answers are those of ng-run, whoever else is served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/integration/run_support.h"
#include "tests/integration/serve/server.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ng::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Ids = std::vector<int32_t>;

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kResponses = "/v1/responses";
constexpr const char* kChat = "/v1/chat/completions";

Result RunProgram(const std::string& program, const Arguments& arguments) {
  Command command;
  command.program = program;
  command.arguments = arguments;
  return Run(command);
}

// The line that ng-run prints for each prompt.
std::vector<Json> RunLines(const Arguments& arguments) {
  const Result result = NgRun(Demo() + Arguments{"--output=jsonl"} + arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return JsonLines(result.out);
}
Json RunLine(const Arguments& arguments) {
  const std::vector<Json> lines = RunLines(arguments);
  EXPECT_EQ(lines.size(), 1U);
  return lines.size() == 1 ? lines[0] : Json();
}

// Prompt and answer of a choice whose ids were asked for.
Ids IdsOf(const Json& choice) {
  Ids ids = choice["prompt_token_ids"];
  const Ids answer = choice["token_ids"];
  ids.insert(ids.end(), answer.begin(), answer.end());
  return ids;
}

Json Question(const std::string& text) {
  return Json::array({{{"role", "user"}, {"content", text}}});
}

// What a stream's pieces of choice `index` say together.
std::string TextOf(const std::vector<Json>& events, int index) {
  std::string text;
  for (const Json& event : events) {
    for (const Json& choice : event["choices"]) {
      if (choice["index"] != index) continue;
      if (choice.contains("text")) text += choice["text"];
      if (choice.contains("delta") && choice["delta"].contains("content")) {
        text += choice["delta"]["content"];
      }
    }
  }
  return text;
}

Json ErrorOf(const HttpResponse& response) {
  EXPECT_THAT(response.headers.at("content-type"), StartsWith("application/json"));
  const Json json = Json::parse(response.body);
  EXPECT_THAT(Keys(json), ElementsAre("error"));
  EXPECT_THAT(Keys(json["error"]), ElementsAre("message", "type", "param", "code"));
  return json["error"];
}

TEST(Serve, AnswersWithTheIdsOfNgRun) {
  const Server server;
  struct Case {
    Json body;
    Arguments arguments;
  };
  const Case cases[] = {
      {{{"temperature", 0}, {"max_tokens", 30}},
       {"--sampler.chain=greedy", "--run.max_new_tokens=30"}},
      {{{"seed", 5}}, {"--sampler.seed=5"}},
      {{{"temperature", 0.7}, {"top_p", 0.8}, {"seed", 9}, {"max_tokens", 40}},
       {"--sampler.chain=temperature,top_k,top_p", "--sampler.temperature.value=0.7",
        "--sampler.top_p.p=0.8", "--sampler.seed=9", "--run.max_new_tokens=40"}},
      {{{"frequency_penalty", 1.5}, {"presence_penalty", 0.5}, {"max_tokens", 40}},
       {"--sampler.chain=frequency_penalty,presence_penalty,temperature,top_k",
        "--sampler.frequency_penalty.value=1.5", "--sampler.frequency_penalty.window=0",
        "--sampler.presence_penalty.value=0.5", "--sampler.presence_penalty.window=0",
        "--run.max_new_tokens=40"}},
      {{{"logit_bias", {{"300", 100}}}, {"temperature", 0}, {"max_tokens", 5}},
       {"--sampler.chain=logit_bias,greedy", "--sampler.logit_bias.bias=300=100",
        "--run.max_new_tokens=5"}}};
  for (const Case& one : cases) {
    Json body = one.body;
    body["prompt"] = "To be, or not";
    body["return_token_ids"] = true;
    const Json choice = server.Post(kCompletions, body)["choices"][0];
    const Json line = RunLine(one.arguments + Arguments{"--prompt=To be, or not"});
    EXPECT_EQ(IdsOf(choice), line["ids"].get<Ids>()) << body;
    EXPECT_EQ(choice["text"], line["text"]) << body;
    EXPECT_EQ(choice["finish_reason"], line["stop_reason"] == "eot" ? "stop" : "length");
  }
}

// Where the config says nothing of it, a sequence may be as long as the model's context.
TEST(Serve, TakesTheContextOfTheModel) {
  constexpr int64_t kContext = 40000;
  const TempDir dir;
  TinyNiels{.max_positions = kContext}.WriteTo(dir.path());
  const Arguments model = {"--model.path=" + dir.path(), "--serve.model=demo"};
  const auto longest = [](const Server& server) {
    return Json::parse(
        HttpClient(server.port()).Get("/v1/models").body)["data"][0]["max_model_len"];
  };
  const Server server(model);
  EXPECT_EQ(longest(server), kContext);
  const Ids prompt(9000, 7);
  const Json body = {
      {"prompt", prompt}, {"max_tokens", 2}, {"return_token_ids", true}, {"seed", 3}};
  const Json choice = server.Post(kCompletions, body)["choices"][0];
  EXPECT_EQ(choice["token_ids"].size(), 2U);
  // Less where less is asked for.
  const Server shorter(model + Arguments{"--cache.max_tokens=9002"});
  EXPECT_EQ(longest(shorter), 9002);
  EXPECT_EQ(shorter.Post(kCompletions, body)["choices"][0]["token_ids"], choice["token_ids"]);
  EXPECT_EQ(longest(Server(model + Arguments{"--ctx-size=300"})), 300);
}

TEST(Serve, AnswersAConversationWithTheIdsOfNgRun) {
  const Server server;
  const Json body = {{"messages", Question("Who art thou?")}, {"return_token_ids", true}};
  const Json answer = server.Post(kChat, body);
  const Json line = RunLine({"--message=Who art thou?"});
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(IdsOf(choice), line["ids"].get<Ids>());
  EXPECT_EQ(choice["message"]["content"], line["text"]);
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], line["prompt_ids"].size());
  EXPECT_EQ(answer["usage"]["completion_tokens"], line["ids"].size() - line["prompt_ids"].size());
  const Json told = {{"messages", Json::array({{{"role", "system"}, {"content", "Be brief."}},
                                               {{"role", "user"}, {"content", "Who art thou?"}}})},
                     {"return_token_ids", true}};
  EXPECT_EQ(IdsOf(server.Post(kChat, told)["choices"][0]),
            RunLine({"--message=Who art thou?", "--run.system=Be brief."})["ids"].get<Ids>());
}

TEST(Serve, AnswersAResponseWithTheTextOfNgRun) {
  const Server server;
  const std::string text = RunLine({"--message=Who art thou?", "--run.system=Be brief."})["text"];
  Json body = {{"input", "Who art thou?"}, {"instructions", "Be brief."}};
  const Json answer = server.Post(kResponses, body);
  EXPECT_EQ(answer["output"][0]["content"][0]["text"], text);
  EXPECT_EQ(answer["status"], "completed");
  body["stream"] = true;
  body["model"] = "demo";
  const HttpResponse streamed = HttpClient(server.port()).Post(kResponses, body.dump());
  std::string told;
  Json last;
  for (const absl::string_view event : absl::StrSplit(streamed.body, "\n\n", absl::SkipEmpty())) {
    const std::pair<std::string, std::string> lines =
        absl::StrSplit(event, absl::MaxSplits("\ndata: ", 1));
    const int64_t number = last.is_null() ? 0 : last["sequence_number"].get<int64_t>() + 1;
    last = Json::parse(lines.second);
    EXPECT_EQ(lines.first, absl::StrCat("event: ", last["type"].get<std::string>()));
    EXPECT_EQ(last["sequence_number"], number);
    if (last["type"] == "response.output_text.delta") told += last["delta"];
  }
  EXPECT_EQ(told, text);
  EXPECT_EQ(last["type"], "response.completed");
  EXPECT_EQ(last["response"]["output"][0]["content"], answer["output"][0]["content"]);
  EXPECT_EQ(last["response"]["usage"], answer["usage"]);
  const Json cut = server.Post(kResponses, {{"input", "Who art thou?"}, {"max_output_tokens", 2}});
  EXPECT_EQ(cut["status"], "incomplete");
  EXPECT_EQ(cut["incomplete_details"]["reason"], "max_output_tokens");
}

TEST(Serve, AnswersTheOtherApisWithTheTextOfNgRun) {
  const Server server;
  const std::string text =
      RunLine({"--message=Who art thou?", "--run.system=Be brief.", "-n", "40"})["text"];
  const Json turn = {{"role", "user"}, {"content", "Who art thou?"}};
  const Json message = server.Post(
      "/v1/messages", {{"messages", {turn}}, {"system", "Be brief."}, {"max_tokens", 40}});
  EXPECT_EQ(message["content"][0]["text"], text);
  const Json chat = server.Post(
      "/api/chat", {{"messages", {{{"role", "system"}, {"content", "Be brief."}}, turn}},
                    {"options", {{"num_predict", 40}}},
                    {"stream", false}});
  EXPECT_EQ(chat["message"]["content"], text);
}

TEST(Serve, ChoicesAreThoseOfNgRunsPrompts) {
  const Server server;
  const TempDir dir;
  const std::string prompts = dir.Write("p.jsonl", R"({"prompt":"To be"}
{"prompt":"To be"}
{"prompt_ids":[300,301]}
{"prompt_ids":[300,301]}
)");
  const std::vector<Json> lines = RunLines({"--prompts", prompts, "--run.max_new_tokens=20"});
  Json body = {{"prompt", {"To be"}}, {"n", 4}, {"max_tokens", 20}, {"return_token_ids", true}};
  const Json four = server.Post(kCompletions, body);
  ASSERT_EQ(four["choices"].size(), 4U);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(IdsOf(four["choices"][i]), lines[i]["ids"].get<Ids>());
  EXPECT_NE(four["choices"][0]["token_ids"], four["choices"][1]["token_ids"]);
  body["prompt"] = Json::array({{300, 301}, {300, 301}});
  body["n"] = 2;
  const Json others = server.Post(kCompletions, body);
  for (int i = 2; i < 4; ++i) {
    EXPECT_EQ(others["choices"][i]["index"], i);
    EXPECT_EQ(IdsOf(others["choices"][i]), lines[i]["ids"].get<Ids>());
  }
  EXPECT_EQ(others["usage"]["prompt_tokens"], 4);  // of both prompts, each once
}

TEST(Serve, StreamsWhatItAnswers) {
  const Server server;
  const Json body = {{"prompt", "To be"}, {"n", 2}, {"max_tokens", 30}, {"logprobs", 1}};
  const Json whole = server.Post(kCompletions, body);
  Json streamed = body;
  streamed["stream_options"] = {{"include_usage", true}};
  std::vector<Json> events = server.Stream(kCompletions, streamed);
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
  EXPECT_THAT(events.back()["choices"], IsEmpty());
  events.pop_back();
  for (int i = 0; i < 2; ++i) {
    const Json& choice = whole["choices"][i];
    EXPECT_EQ(TextOf(events, i), choice["text"].get<std::string>());
    Json offsets = Json::array();
    Json logprobs = Json::array();
    Json reason;
    for (const Json& event : events) {
      EXPECT_EQ(event["id"], events[0]["id"]);
      const Json& piece = event["choices"][0];
      if (piece["index"] != i) continue;
      EXPECT_EQ(reason, nullptr);  // nothing follows the end
      reason = piece["finish_reason"];
      if (piece["logprobs"] == nullptr) continue;
      for (const Json& one : piece["logprobs"]["text_offset"]) offsets.push_back(one);
      for (const Json& one : piece["logprobs"]["token_logprobs"]) logprobs.push_back(one);
    }
    EXPECT_EQ(reason, choice["finish_reason"]);
    EXPECT_EQ(offsets, choice["logprobs"]["text_offset"]);
    EXPECT_EQ(logprobs, choice["logprobs"]["token_logprobs"]);
  }
  const Json chat = {{"messages", Question("Who art thou?")}};
  const std::vector<Json> told = server.Stream(kChat, chat);
  EXPECT_EQ(TextOf(told, 0),
            server.Post(kChat, chat)["choices"][0]["message"]["content"].get<std::string>());
  EXPECT_EQ(told[0]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(told[0]["object"], "chat.completion.chunk");
  EXPECT_EQ(told.back()["choices"][0]["delta"], Json::object());
}

TEST(Serve, EndsAtAStopTextAsNgRunDoes) {
  const Server server;
  Json body = {{"prompt", "To be"}, {"temperature", 0}, {"max_tokens", 60}};
  const std::string all = server.Post(kCompletions, body)["choices"][0]["text"];
  const std::string stop = all.substr(all.size() / 2, 4);
  body["stop"] = stop;
  body["logprobs"] = 0;
  const Json choice = server.Post(kCompletions, body)["choices"][0];
  const std::string text = choice["text"];
  EXPECT_EQ(text, all.substr(0, all.find(stop)));
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_THAT(absl::StrJoin(choice["logprobs"]["tokens"].get<std::vector<std::string>>(), ""),
              StartsWith(text));
  EXPECT_EQ(TextOf(server.Stream(kCompletions, body), 0), text);
  for (const char* const other : {",", " ", "\n", "\\", "a, b\\ c\n"}) {
    body["stop"] = Json::array({"~~~", other});
    const std::string found = server.Post(kCompletions, body)["choices"][0]["text"];
    EXPECT_EQ(found, all.substr(0, all.find(other))) << other;
  }
}

TEST(Serve, LogprobsAreTheEnginesOwn) {
  const Server server;
  const TempDir dir;
  const Result run = NgRun(
      Demo() + Arguments{"--prompt=To be", "--run.max_new_tokens=20", "--steps", dir.File("s")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<Json> steps = JsonLines(ReadFile(dir.File("s")));
  const Json completion = server.Post(
      kCompletions, {{"prompt", "To be"}, {"max_tokens", 20}, {"logprobs", 3}})["choices"][0];
  const Json& logprobs = completion["logprobs"];
  ASSERT_GT(logprobs["tokens"].size(), 10U);
  for (size_t i = 0; i < logprobs["tokens"].size(); ++i) {
    EXPECT_EQ(logprobs["token_logprobs"][i], steps[i]["logprob"]) << i;
    std::vector<double> top;
    for (const auto& [token, logprob] : logprobs["top_logprobs"][i].items()) top.push_back(logprob);
    std::ranges::sort(top, std::greater());
    ASSERT_GE(top.size(), 3U);
    for (size_t j = 0; j < 3; ++j) {
      EXPECT_NEAR(top[j], std::log(steps[i]["top_k"][j][1].get<double>()), 1e-6);
    }
  }
  const Json chat = {{"messages", Question("Who art thou?")},
                     {"max_tokens", 5},
                     {"logprobs", true},
                     {"top_logprobs", 2}};
  const Json content = server.Post(kChat, chat)["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 5U);
  for (const Json& token : content) {
    EXPECT_THAT(Keys(token), ElementsAre("token", "logprob", "bytes", "top_logprobs"));
    ASSERT_EQ(token["top_logprobs"].size(), 2U);
    EXPECT_GE(token["top_logprobs"][0]["logprob"], token["top_logprobs"][1]["logprob"]);
    const std::string bytes = token["token"];
    EXPECT_EQ(token["bytes"], std::vector<uint8_t>(bytes.begin(), bytes.end()));
  }
}

// What a program that scores texts asks: nothing new, and what the prompt's tokens are worth.
TEST(Serve, EchoScoresAPromptAsNgEvalDoes) {
  const Server server;
  const std::string text = "To be, or not to be, that is the question.";
  const Json answer = server.Post(
      kCompletions, {{"prompt", text}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 2}});
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["text"], text);
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 0);
  const Json& logprobs = choice["logprobs"];
  const size_t n = logprobs["tokens"].size();
  ASSERT_EQ(n, answer["usage"]["prompt_tokens"]);
  EXPECT_EQ(logprobs["token_logprobs"][0], nullptr);
  EXPECT_EQ(logprobs["top_logprobs"][0], nullptr);
  EXPECT_EQ(logprobs["text_offset"][0], 0);
  double sum = 0.0;
  for (size_t i = 1; i < n; ++i) {
    sum += logprobs["token_logprobs"][i].get<double>();
    EXPECT_GE(logprobs["top_logprobs"][i].size(), 2U);
  }
  const TempDir dir;
  const Result result = RunProgram(
      "ng-eval", Demo() + Arguments{"--text-file", dir.Write("t", text), "--output=jsonl"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  // ng-eval adds in another order.
  EXPECT_NEAR(std::exp(-sum / static_cast<double>(n - 1)),
              JsonLines(result.out)[0]["perplexity"].get<double>(), 1e-9);
  // A token more changes nothing of what comes before, in a stream neither.
  const Json more = {{"prompt", text}, {"max_tokens", 1}, {"echo", true}, {"logprobs", 2}};
  const Json longer = server.Post(kCompletions, more)["choices"][0];
  EXPECT_EQ(longer["logprobs"]["tokens"].size(), n + 1);
  for (size_t i = 0; i < n; ++i) {
    EXPECT_EQ(longer["logprobs"]["token_logprobs"][i], logprobs["token_logprobs"][i]);
  }
  EXPECT_EQ(TextOf(server.Stream(kCompletions, more), 0), longer["text"].get<std::string>());
}

TEST(Serve, AnswersManyClientsAsItAnswersOne) {
  const Server server(
      {"--cache.name=paged", "--cache.paged.page_tokens=16", "--cache.max_sequences=5"});
  const auto body = [](int i) {
    Json json = {
        {"prompt", absl::StrCat("The quality of mercy is not strained. It is number ", i % 3)},
        {"seed", i},
        {"max_tokens", 20 + i},
        {"logprobs", 1},
        {"return_token_ids", true}};
    if (i % 2 == 0) json["temperature"] = 0.5 * i;
    if (i % 3 == 0) json["stop"] = "e";
    return json;
  };
  constexpr int kClients = 8;
  std::vector<Json> alone;
  for (int i = 0; i < kClients; ++i) {
    alone.push_back(server.Post(kCompletions, body(i))["choices"][0]);
  }
  std::vector<Json> together(kClients);
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back(
        [&, i] { together[i] = server.Post(kCompletions, body(i))["choices"][0]; });
  }
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < kClients; ++i) EXPECT_EQ(together[i], alone[i]) << i;
  EXPECT_GT(server.Metric("ng_shared_tokens_total"), 0);
}

TEST(Serve, AnswersInTheFormThatIsAskedFor) {
  const Server server;
  const Json schema = {{"type", "object"},
                       {"properties", {{"age", {{"type", "integer"}}}}},
                       {"required", {"age"}},
                       {"additionalProperties", false}};
  const Json answer = server.Post(
      kChat, {{"messages", Question("How old art thou?")},
              {"max_tokens", 80},
              {"response_format",
               {{"type", "json_schema"}, {"json_schema", {{"name", "age"}, {"schema", schema}}}}}});
  const Json said = Json::parse(answer["choices"][0]["message"]["content"].get<std::string>());
  EXPECT_TRUE(said["age"].is_number_integer()) << said;
  const Json wrong = ErrorOf(server.Ask(
      kChat, {{"messages", Question("x")},
              {"stream", true},
              {"response_format",
               {{"type", "json_schema"},
                {"json_schema", {{"name", "x"}, {"schema", {{"type", "no such type"}}}}}}}}));
  EXPECT_THAT(wrong["message"].get<std::string>(), HasSubstr("no such type"));
  EXPECT_EQ(wrong["param"], "response_format");
}

TEST(Serve, EndsTheAnswerOfAClientThatLeaves) {
  const Server server({"--cache.max_sequences=1"});
  int n_accepted = 0;
  Json body = {{"model", "demo"}, {"prompt", "To be"}, {"max_tokens", 240},
               {"stream", true},  {"n", 16},           {"temperature", 0}};
  for (const bool streams : {true, false}) {
    body["stream"] = streams;
    HttpClient client(server.port());
    const std::string text = body.dump();
    client.Send(absl::StrCat("POST ", kCompletions, " HTTP/1.1\r\nHost: localhost\r\n",
                             "Content-Length: ", text.size(), "\r\n\r\n", text));
    // Before the next one comes, so that all of either request are cancelled.
    n_accepted += 16;
    ASSERT_TRUE(
        server.Comes("ng_answers_accepted_total", [&](double n) { return n == n_accepted; }));
  }
  EXPECT_TRUE(server.Comes("ng_answers_cancelled_total", [](double n) { return n > 16; }));
  EXPECT_TRUE(server.Comes("ng_answers_active", [](double n) { return n == 0; }));
  EXPECT_EQ(server.Metric("ng_http_gone_total"), 2);
  EXPECT_EQ(server.Metric("ng_answers_waiting"), 0);
}

TEST(Serve, RefusesWhatItHasNoRoomFor) {
  const Server server({"--cache.max_sequences=1", "--serve.max_queued=2",
                       "--serve.max_body_bytes=2000", "--serve.answer_seconds=1"});
  const Json slow = {{"prompt", "To be"}, {"max_tokens", 240}, {"n", 2}, {"temperature", 0}};
  std::vector<std::thread> clients;
  std::vector<HttpResponse> responses(4);
  for (HttpResponse& response : responses) {
    clients.emplace_back([&] { response = server.Ask(kCompletions, slow); });
  }
  for (std::thread& client : clients) client.join();
  const auto refused =
      std::ranges::find_if(responses, [](const auto& one) { return one.status == 429; });
  ASSERT_NE(refused, responses.end());
  EXPECT_EQ(refused->headers.at("retry-after"), "1");
  EXPECT_EQ(ErrorOf(*refused)["code"], "queue_full");
  EXPECT_EQ(ErrorOf(*refused)["type"], "rate_limit_error");
  const Json too_many = ErrorOf(server.Ask(kCompletions, {{"prompt", "x"}, {"n", 3}}));
  EXPECT_EQ(too_many["param"], "n");
  const HttpResponse large = server.Ask(kCompletions, {{"prompt", std::string(2000, 'x')}});
  EXPECT_EQ(large.status, 413);
  EXPECT_THAT(ErrorOf(large)["message"].get<std::string>(), HasSubstr("serve.max_body_bytes"));
  const Json too_long = ErrorOf(server.Ask(kCompletions, {{"prompt", Json(Ids(257, 300))}}));
  EXPECT_EQ(too_long["code"], "context_length_exceeded");
  EXPECT_THAT(too_long["message"].get<std::string>(), HasSubstr("256"));
}

TEST(Serve, BreaksOffWhatTakesTooLong) {
  // Answers as long as they may be, one after the other.
  const Server server({"--cache.max_sequences=1", "--serve.answer_seconds=1",
                       "--run.stop_ids=", "--attention.name=reference"});
  Json body = {{"prompt", "To be"}, {"max_tokens", 240}, {"n", 64}, {"temperature", 1}};
  const HttpResponse response = server.Ask(kCompletions, body);
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(ErrorOf(response)["code"], "timeout");
  EXPECT_TRUE(server.Comes("ng_answers_cancelled_total", [](double n) { return n > 0; }));
  EXPECT_TRUE(server.Comes("ng_answers_active", [](double n) { return n == 0; }));
  body["stream"] = true;
  body["model"] = "demo";
  const HttpResponse streamed = HttpClient(server.port()).Post(kCompletions, body.dump());
  ASSERT_EQ(streamed.status, 200) << streamed.body;
  EXPECT_EQ(Json::parse(Events(streamed.body).back())["error"]["code"], "timeout");
  EXPECT_TRUE(server.Comes("ng_answers_active", [](double n) { return n == 0; }));
}

TEST(Serve, TheTimeOfAnAnswerBeginsWhenItsPromptIsRead) {
  const Server server({"--cache.max_sequences=1", "--serve.answer_seconds=1",
                       "--run.stop_ids=", "--cache.max_tokens=0", "--run.on_full=recompute"});
  // Each of these has its second, one after the other.
  std::vector<HttpResponse> endless(3);
  std::vector<std::thread> clients;
  for (HttpResponse& response : endless) {
    clients.emplace_back([&] {
      response = server.Ask(kCompletions, {{"prompt", "To be"}, {"max_tokens", 1000000}});
    });
  }
  EXPECT_TRUE(server.Comes("ng_answers_accepted_total", [](double n) { return n == 3; }));
  // It waits longer than that for its turn, and is answered.
  EXPECT_EQ(server.Ask(kCompletions, {{"prompt", "To be"}, {"max_tokens", 1}}).status, 200);
  for (std::thread& client : clients) client.join();
  for (const HttpResponse& response : endless) EXPECT_EQ(response.status, 503);
}

TEST(Serve, RefusesStrangersAndOtherPages) {
  const Server server({"--serve.key=sesame"});
  const auto get = [&](const std::string& path, const std::string& headers) {
    return HttpClient(server.port()).Get(path, headers);
  };
  const HttpResponse none = get("/v1/models", "");
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(none.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(ErrorOf(none)["code"], "invalid_api_key");
  EXPECT_EQ(get("/v1/models", "Authorization: Bearer sesam\r\n").status, 401);
  EXPECT_EQ(get("/metrics", "").status, 401);
  EXPECT_EQ(HttpClient(server.port()).Post(kCompletions, "{}").status, 401);
  EXPECT_EQ(get("/v1/models", "Authorization: Bearer sesame\r\n").status, 200);
  EXPECT_EQ(get("/health", "").status, 200);
  EXPECT_EQ(get("/health", "Origin: http://evil.example\r\n").status, 403);
  HttpClient rebound(server.port());
  rebound.Send("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(rebound.Receive().status, 403);
}

TEST(Serve, SaysWhatThereIs) {
  const Server server;
  HttpClient client(server.port());
  EXPECT_EQ(client.Get("/health").body, "{\"status\": \"ok\"}\n");
  const Json models = Json::parse(client.Get("/v1/models").body);
  EXPECT_EQ(models["data"][0]["id"], "demo");
  EXPECT_EQ(models["data"][0]["max_model_len"], 256);
  EXPECT_EQ(Json::parse(client.Get("/v1/models/demo").body), models["data"][0]);
  EXPECT_EQ(client.Get("/v1/models/gpt-4").status, 404);
  const HttpResponse page = client.Get("/");
  EXPECT_THAT(page.headers.at("content-type"), StartsWith("text/html"));
  EXPECT_THAT(page.headers.at("content-security-policy"), HasSubstr("default-src 'none'"));
  EXPECT_THAT(page.body,
              HasSubstr("const served = {\"model\":\"demo\",\"needs_key\":false,\"views\":false}"));
  EXPECT_EQ(page.body.find("src=\""), page.body.npos);  // all of it is in the page
  EXPECT_EQ(client.Get("/no/such").status, 404);
  EXPECT_EQ(client.Get(kCompletions).headers.at("allow"), "POST");
  EXPECT_EQ(Json::parse(client.Get("/models/dem%6f").body), models["data"][0]);
  EXPECT_EQ(client.Get("/v1/models", "Connection: close\r\n").headers.at("connection"), "close");
  const Json ids = server.Post("/tokenize", {{"prompt", "To be"}})["tokens"];
  EXPECT_EQ(ids, RunLine({"--prompt=To be", "--run.max_new_tokens=0"})["ids"]);
  EXPECT_EQ(server.Post("/tokenize", {{"messages", Question("Hi")}})["tokens"],
            RunLine({"--message=Hi", "--run.max_new_tokens=0"})["ids"]);
  EXPECT_EQ(ErrorOf(server.Ask("/v1/embeddings", {{"input", "x"}}))["code"], "unsupported");
}

TEST(Serve, RefusesRequestsThatItCannotAnswerAsTheyAre) {
  const Server server;
  const auto error = [&](const std::string& path, const Json& body) {
    const HttpResponse response = server.Ask(path, body);
    EXPECT_EQ(response.status, 400) << body;
    return ErrorOf(response)["param"];
  };
  EXPECT_EQ(error(kCompletions, {{"prompt", "x"}, {"suffix", "y"}}), "suffix");
  EXPECT_EQ(error(kCompletions, {{"prompt", ""}}), nullptr);
  EXPECT_EQ(error(kCompletions, {{"prompt", {1024}}}), "prompt");
  EXPECT_EQ(error(kCompletions, {{"prompt", "x"}, {"logit_bias", {{"1024", 1}}}}), "logit_bias");
  EXPECT_EQ(error(kCompletions, {{"prompt", "x"}, {"stop", "\r"}}), "stop");
  EXPECT_EQ(error(kChat, {{"messages", {{{"role", "user"}}}}}), "messages");
  EXPECT_EQ(
      error(kChat, {{"messages", {{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}}}),
      "messages");
  HttpClient client(server.port());
  EXPECT_EQ(
      client.Post(kChat, R"({"model":"gpt-4","messages":[{"role":"user","content":"x"}]})").status,
      404);
  EXPECT_EQ(client.Post(kChat, "{\"model\":\"demo\xFF\"}").status, 400);
  EXPECT_EQ(client.Post(kChat, "{").status, 400);
  EXPECT_EQ(server.Post(kCompletions, {{"prompt", "x"}, {"max_tokens", 1}})["object"],
            "text_completion");
}

TEST(Serve, EndsWhenItsAnswersHaveEnded) {
  Server server({"--cache.max_sequences=1"});
  HttpClient client(server.port());
  HttpClient idle(server.port());
  const std::string body =
      R"({"model":"demo","prompt":"To be","max_tokens":240,"n":4,"stream":true,"temperature":1})";
  client.Send(absl::StrCat("POST ", kCompletions, " HTTP/1.1\r\nHost: localhost\r\n",
                           "Content-Length: ", body.size(), "\r\n\r\n", body));
  ASSERT_TRUE(client.ReceiveUntil("data: "));
  server.Signal(SIGTERM);
  EXPECT_TRUE(idle.Ends());
  const HttpResponse response = client.Receive();
  EXPECT_TRUE(response.whole);
  EXPECT_EQ(Events(response.body).back(), "[DONE]");
  client.Close();
  EXPECT_EQ(server.Wait(), 0);
}

TEST(Serve, EndsAtOnceAtASecondSignal) {
  Server server({"--cache.max_sequences=1"});
  HttpClient client(server.port());
  const std::string body =
      R"({"model":"demo","prompt":"To be","max_tokens":240,"n":64,"stream":true,"temperature":1})";
  client.Send(absl::StrCat("POST ", kCompletions, " HTTP/1.1\r\nHost: localhost\r\n",
                           "Content-Length: ", body.size(), "\r\n\r\n", body));
  ASSERT_TRUE(client.ReceiveUntil("data: "));
  server.Signal(SIGTERM);
  server.Signal(SIGINT);
  EXPECT_GT(server.Wait(), 128);
}

TEST(Serve, RefusesToBeginWhereItCannotServe) {
  const auto serve = [](const Arguments& more) { return RunProgram("ng-serve", Demo() + more); };
  ExpectErrorOf("ng-serve", serve({"--serve.host=0.0.0.0"}), 2, {"serve.key"});
  ExpectErrorOf("ng-serve", serve({"--serve.host=example.org"}), 2, {"an address in digits"});
  ExpectErrorOf("ng-serve", serve({"--serve.key=a b"}), 2, {"serve.key"});
  ExpectErrorOf("ng-serve", serve({"--serve.port=70000"}), 2, {"serve.port", "65535"});
  ExpectErrorOf("ng-serve", serve({"--no-such"}), 2, {"no-such"});
  const Server server;
  ExpectErrorOf("ng-serve", serve({absl::StrCat("--serve.port=", server.port())}), 1,
                {"cannot listen", "Address already in use"});
  EXPECT_THAT(RunProgram("ng-serve", {"--help"}).out, StartsWith("usage: ng-serve"));
}

// The data of a page of ng-run --view.
Json DataOf(const std::string& page) {
  const std::string mark = R"(<script id="ng-run" type="application/json">)";
  const size_t begin = page.find(mark) + mark.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Serve, LooksInsideTheLastAnswers) {
  const Server server({"--view", "--serve.views=3"});
  const Json body = {{"messages", Question("Who art thou?")}, {"return_token_ids", true}, {"n", 2}};
  const Json answer = server.Post(kChat, body);
  const std::string name = answer["id"];
  for (const int i : {0, 1}) {
    const HttpResponse response =
        HttpClient(server.port()).Get(absl::StrCat("/view/", name, "/", i));
    ASSERT_EQ(response.status, 200) << response.body;
    const Json data = DataOf(response.body);
    EXPECT_EQ(data["ids"], Json(IdsOf(answer["choices"][static_cast<size_t>(i)])));
    EXPECT_EQ(data["steps"].size(), answer["choices"][static_cast<size_t>(i)]["token_ids"].size());
    EXPECT_EQ(data["steps"][0]["top"].size(), 10U);
    EXPECT_GT(data["steps"][0]["entropy"], 0.0);
    EXPECT_EQ(data["run"]["stop_reason"], "eot");
  }
  // Its command gives the same ids, though the request has settings of its own.
  Json sampled = {{"messages", Question("Who art thou?")}, {"seed", 7}, {"temperature", 1.2}};
  sampled["return_token_ids"] = true;
  const Json second = server.Post(kChat, sampled);
  const HttpResponse page =
      HttpClient(server.port()).Get(absl::StrCat("/view/", std::string(second["id"])));
  ASSERT_EQ(page.status, 200);
  std::string command = DataOf(page.body)["run"]["replay"];
  const std::string view = " --view answer.html";
  ASSERT_TRUE(absl::StartsWith(command, "ng-run ") && absl::EndsWith(command, view)) << command;
  EXPECT_THAT(command, Not(HasSubstr("--serve."))) << "it would show serve.key";
  command = command.substr(0, command.size() - view.size());
  const Result run = Shell("\"$NG\"" + command.substr(6) + " --output jsonl");
  ASSERT_EQ(run.exit_code, 0) << command << run.err;
  EXPECT_EQ(JsonLines(run.out).at(0)["ids"], Json(IdsOf(second["choices"][0])));

  // The fourth choice has pushed out the first.
  server.Post(kChat, body);
  EXPECT_EQ(HttpClient(server.port()).Get(absl::StrCat("/view/", name, "/0")).status, 404);
  const HttpResponse unknown = HttpClient(server.port()).Get("/view/../config");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body, HasSubstr("among the last 3, which serve.views keeps"));
}

TEST(Serve, LooksInsideNothingUnlessAsked) {
  const Server server;
  const HttpResponse response = HttpClient(server.port()).Get("/view/chatcmpl-1");
  EXPECT_EQ(response.status, 404);
  EXPECT_THAT(response.body, HasSubstr("--view"));
}

TEST(Serve, ALineForEachRequestWhereThatIsAskedFor) {
  const Server server({"--serve.log=json"});
  const Json answer =
      server.Post(kChat, {{"messages", Question("Who art thou?")}, {"max_tokens", 5}});
  const Json line = Json::parse(server.ReadLine());
  EXPECT_EQ(line["client"], "127.0.0.1");
  EXPECT_EQ(line["method"], "POST");
  EXPECT_EQ(line["path"], kChat);
  EXPECT_EQ(line["model"], "demo");
  EXPECT_EQ(line["tokens_in"], answer["usage"]["prompt_tokens"]);
  EXPECT_EQ(line["tokens_out"], answer["usage"]["completion_tokens"]);
  EXPECT_EQ(line["status"], 200);
  EXPECT_EQ(line["gone"], false);
  server.Stream(kChat, {{"messages", Question("Who art thou?")}, {"max_tokens", 5}});
  EXPECT_EQ(Json::parse(server.ReadLine())["tokens_out"], answer["usage"]["completion_tokens"]);
  HttpClient(server.port()).Get("/no\x1b[2Jwhere");
  const std::string refused = server.ReadLine();
  EXPECT_EQ(Json::parse(refused)["status"], 400);
  EXPECT_EQ(Json::parse(refused)["tokens_in"], nullptr);
}

TEST(Serve, LinesAreTextToo) {
  const Server server({"--serve.log=text"});
  server.Post(kChat, {{"messages", Question("Who art thou?")}, {"max_tokens", 5}});
  EXPECT_THAT(server.ReadLine(),
              ::testing::ContainsRegex("^[0-9:]{8} 127.0.0.1 POST /v1/chat/completions demo, "
                                       "8 tokens in, 5 out, [0-9.]+ s, 200$"));
}

TEST(Serve, SaysWhatItWaitsForAtASignal) {
  Server server({"--run.use_cache=false", "--attention.name=reference", "--run.isa=scalar",
                 "--run.stop_ids="});
  std::thread client([&] {
    server.Post(kChat, {{"messages", Question("Who art thou?")}, {"max_tokens", 60}});
  });
  EXPECT_TRUE(server.Comes("ng_answers_active", [](double n) { return n == 1; }));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.ReadLine(),
            "ng-serve: ends when 1 answer has ended; Ctrl-C again ends it at once");
  client.join();
  EXPECT_EQ(server.Wait(), 0);
}

}  // namespace
}  // namespace ng::test
