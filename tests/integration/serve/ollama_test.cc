// Ollama's API as its clients see it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/integration/run_support.h"
#include "tests/integration/serve/served_tools.h"
#include "tests/integration/serve/server.h"
#include "tests/support/http_client.h"

namespace ng::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kChatOfOllama = "/api/chat";
constexpr const char* kGenerate = "/api/generate";

class ServedOllama : public ServedTools {
 protected:
  // The answer is this text.
  static Json AskingFor(const std::string& answer) {
    return {{"messages", {{{"role", "user"}, {"content", "ask"}}}},
            {"options", {{"grammar", GrammarOf(answer)}, {"num_predict", 400}}},
            {"tools",
             {{{"type", "function"}, {"function", {{"name", "look"}, {"parameters", Schema()}}}}}},
            {"stream", false}};
  }
  // Those of a stream, which is one unless that is not wanted.
  std::vector<Json> LinesOf(const std::string& path, Json body) const {
    body.erase("stream");
    const HttpResponse response = server_.Ask(path, std::move(body));
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.headers.at("content-type"), "application/x-ndjson");
    std::vector<Json> lines;
    for (const absl::string_view line : absl::StrSplit(response.body, '\n', absl::SkipEmpty())) {
      lines.push_back(Json::parse(std::string(line)));
    }
    return lines;
  }
};

TEST_F(ServedOllama, AnswersAChat) {
  const Json answer = server_.Post(kChatOfOllama, AskingFor(kTwoCalls));
  EXPECT_EQ(answer["model"], "demo");
  EXPECT_EQ(answer["done"], true);
  EXPECT_EQ(answer["done_reason"], "stop");
  EXPECT_GT(answer["prompt_eval_count"], 0);
  EXPECT_GT(answer["eval_count"], 0);
  EXPECT_GT(answer["total_duration"], 0);
  const Json& message = answer["message"];
  EXPECT_EQ(message["content"], "So.");
  EXPECT_EQ(message["thinking"], "hm");
  ASSERT_EQ(message["tool_calls"].size(), 2U);
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "look");
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], Json({{"city", "Rome"}}));
  EXPECT_EQ(message["tool_calls"][1]["function"]["arguments"], Json({{"city", "Oslo"}}));

  // The answer and the tool's results are sent back as they came.
  Json next = AskingFor("Sunny.");
  next["messages"].push_back(message);
  for (int i = 0; i < 2; ++i) {
    next["messages"].push_back({{"role", "tool"}, {"tool_name", "look"}, {"content", "sun"}});
  }
  EXPECT_EQ(server_.Post(kChatOfOllama, next)["message"]["content"], "Sunny.");

  Json cut = AskingFor(kTwoCalls);
  cut["options"]["num_predict"] = 3;
  EXPECT_EQ(server_.Post(kChatOfOllama, cut)["done_reason"], "length");
}

TEST_F(ServedOllama, AStreamAddsUpToTheWhole) {
  const Json whole = server_.Post(kChatOfOllama, AskingFor(kTwoCalls))["message"];
  std::string content, thinking;
  Json calls = Json::array();
  const std::vector<Json> lines = LinesOf(kChatOfOllama, AskingFor(kTwoCalls));
  for (const Json& line : lines) {
    EXPECT_EQ(line["done"], &line == &lines.back());
    const Json& message = line["message"];
    content += message["content"].get<std::string>();
    thinking += message.value("thinking", "");
    for (const Json& call : message.value("tool_calls", Json::array())) calls.push_back(call);
  }
  EXPECT_EQ(content, whole["content"].get<std::string>());
  EXPECT_EQ(thinking, whole["thinking"].get<std::string>());
  ASSERT_EQ(calls.size(), whole["tool_calls"].size());
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i]["function"], whole["tool_calls"][i]["function"]);
  }
  EXPECT_EQ(lines.back()["done_reason"], "stop");
}

TEST_F(ServedOllama, GeneratesWithAndWithoutTheTemplate) {
  const Json options = {{"temperature", 0}, {"num_predict", 9}};
  const auto text = [&](const Json& more) {
    Json body = {{"options", options}, {"stream", false}};
    body.update(more);
    return server_.Post(kGenerate, body)["response"].get<std::string>();
  };
  const auto completed = [&](const std::string& prompt) {
    const Json answer = server_.Post("/v1/completions",
                                     {{"prompt", prompt}, {"temperature", 0}, {"max_tokens", 9}});
    return answer["choices"][0]["text"].get<std::string>();
  };
  EXPECT_EQ(text({{"prompt", "ask"}}), completed("[user]ask[end][assistant]"));
  EXPECT_EQ(text({{"prompt", "ask"}, {"system", "Be brief."}}),
            completed("[system]Be brief.[end][user]ask[end][assistant]"));
  EXPECT_EQ(text({{"prompt", "To be"}, {"raw", true}}), completed("To be"));
  std::string streamed;
  for (const Json& line : LinesOf(kGenerate, {{"prompt", "ask"}, {"options", options}})) {
    streamed += line["response"].get<std::string>();
  }
  EXPECT_EQ(streamed, text({{"prompt", "ask"}}));
  const Json format = {{"type", "object"},
                       {"properties", {{"n", {{"type", "integer"}}}}},
                       {"required", {"n"}},
                       {"additionalProperties", false}};
  const Json made = Json::parse(text({{"prompt", "ask"},
                                      {"format", format},
                                      {"options", {{"temperature", 0}, {"num_predict", 100}}}}));
  EXPECT_THAT(Keys(made), ElementsAre("n"));
}

TEST_F(ServedOllama, SaysWhatThereIs) {
  const auto get = [&](const std::string& path) {
    const HttpResponse response = HttpClient(server_.port()).Get(path);
    EXPECT_EQ(response.status, 200);
    return Json::parse(response.body);
  };
  const Json tag = get("/api/tags")["models"][0];
  EXPECT_EQ(tag["name"], "demo");
  EXPECT_EQ(tag["digest"].get<std::string>().size(), 64U);
  EXPECT_GT(tag["size"], 0);
  EXPECT_EQ(get("/api/ps")["models"][0]["context_length"], 256);
  EXPECT_FALSE(get("/api/version")["version"].get<std::string>().empty());
  const Json shown = server_.Post("/api/show", Json::object());
  EXPECT_EQ(shown["capabilities"], Json({"completion", "tools", "thinking"}));
  const std::string family = shown["details"]["family"];
  EXPECT_EQ(shown["model_info"][family + ".context_length"], 256);
  // What asks for nothing is answered: the model is there.
  EXPECT_EQ(server_.Post(kGenerate, {{"keep_alive", "5m"}})["done_reason"], "load");
  EXPECT_EQ(server_.Post(kChatOfOllama, {{"messages", Json::array()}})["done_reason"], "load");
}

TEST_F(ServedOllama, ErrorsAreInItsOwnWords) {
  const auto error = [&](const std::string& path, const std::string& body, int status) {
    const HttpResponse response = HttpClient(server_.port()).Post(path, body);
    EXPECT_EQ(response.status, status) << response.body;
    const Json json = Json::parse(response.body);
    EXPECT_THAT(Keys(json), ElementsAre("error"));
    return json["error"].get<std::string>();
  };
  const std::string hi = R"("messages":[{"role":"user","content":"x"}])";
  EXPECT_THAT(error(kChatOfOllama, "{\"model\":\"llama3\"," + hi + "}", 404), HasSubstr("llama3"));
  EXPECT_THAT(error(kChatOfOllama, "{\"model\":\"demo\",\"frob\":1," + hi + "}", 400),
              HasSubstr("frob"));
  EXPECT_THAT(error(kChatOfOllama,
                    "{\"model\":\"demo:latest\",\"options\":{\"num_ctx\":100000}," + hi + "}", 400),
              HasSubstr("num_ctx"));
  EXPECT_THAT(
      error(kChatOfOllama,
            R"({"model":"demo","messages":[{"role":"user","content":"x","images":["x"]}]})", 400),
      HasSubstr("images"));
  EXPECT_THAT(error("/api/embed", R"({"model":"demo","input":"x"})", 400), HasSubstr("embeddings"));
  EXPECT_THAT(error("/api/pull", "{}", 404), HasSubstr("/api/pull"));
}

}  // namespace
}  // namespace ng::test
