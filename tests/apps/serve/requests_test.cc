// Bodies of requests: what is read, and what is refused by its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/serve/access.h"
#include "apps/serve/openai_requests.h"
#include "apps/serve/openai_responses.h"
#include "apps/serve/responses_request.h"

namespace ng::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// The error of a body, or one without a message.
template <typename T>
ApiError ErrorOfParsed(const Parsed<T>& parsed) {
  const auto* const error = std::get_if<ApiError>(&parsed);
  return error == nullptr ? ApiError{} : *error;
}

std::string Completion(const std::string& more) {
  return absl::StrCat(R"({"model":"m","prompt":"p")", more, "}");
}
ApiError CompletionError(const std::string& more) {
  return ErrorOfParsed(ParseCompletions(Completion(more)));
}
ApiError ChatError(const std::string& more) {
  return ErrorOfParsed(ParseChat(
      absl::StrCat(R"({"model":"m","messages":[{"role":"user","content":"x"}])", more, "}")));
}

CompletionsRequest Parse(const std::string& more) {
  Parsed<CompletionsRequest> parsed = ParseCompletions(Completion(more));
  EXPECT_EQ(ErrorOfParsed(parsed).message, "");
  return std::get<CompletionsRequest>(std::move(parsed));
}

TEST(ParseCompletions, LeavesToTheConfigWhatARequestDoesNotSay) {
  const CompletionsRequest request = Parse("");
  EXPECT_EQ(request.answer.model, "m");
  EXPECT_FALSE(request.answer.max_tokens);
  EXPECT_EQ(request.answer.n, 1);
  EXPECT_FALSE(request.answer.stream || request.answer.logprobs || request.echo);
  EXPECT_FALSE(request.answer.sampling.seed || request.answer.sampling.temperature);
  EXPECT_FALSE(Parse(R"(,"temperature":null,"stop":null)").answer.sampling.temperature);
}

TEST(ParseCompletions, ReadsEveryField) {
  const CompletionsRequest request = Parse(
      R"(,"max_tokens":0,"n":3,"best_of":3,"stream":true,"stream_options":{"include_usage":true},)"
      R"("echo":true,"logprobs":2,"seed":7,"temperature":0,"top_p":0.5,"top_k":4,"min_p":0.25,)"
      R"("frequency_penalty":1,"presence_penalty":-1,"logit_bias":{"5":-2.5},"stop":["a","b"],)"
      R"("user":"me","return_token_ids":true)");
  const AnswerFields& answer = request.answer;
  EXPECT_EQ(answer.max_tokens, 0);
  EXPECT_EQ(answer.n, 3);
  EXPECT_TRUE(answer.stream && answer.include_usage && request.echo && answer.return_token_ids);
  EXPECT_TRUE(answer.logprobs);
  EXPECT_EQ(answer.top_logprobs, 2);
  EXPECT_EQ(answer.sampling.seed, 7);
  EXPECT_EQ(answer.sampling.temperature, 0);
  EXPECT_EQ(answer.sampling.top_p, 0.5);
  EXPECT_EQ(answer.sampling.top_k, 4);
  EXPECT_EQ(answer.sampling.min_p, 0.25);
  EXPECT_EQ(answer.sampling.frequency_penalty, 1);
  EXPECT_EQ(answer.sampling.presence_penalty, -1);
  EXPECT_THAT(answer.sampling.logit_bias, ElementsAre(Pair(5, -2.5)));
  EXPECT_THAT(answer.sampling.stop, ElementsAre("a", "b"));
  EXPECT_THAT(Parse(R"(,"stop":"x")").answer.sampling.stop, ElementsAre("x"));
}

TEST(ParseCompletions, ReadsPromptsOfEveryForm) {
  const auto prompts = [](const std::string& prompt) {
    Parsed<CompletionsRequest> parsed =
        ParseCompletions(absl::StrCat(R"({"model":"m","prompt":)", prompt, "}"));
    return std::holds_alternative<ApiError>(parsed)
               ? std::vector<PromptField>()
               : std::get<CompletionsRequest>(std::move(parsed)).prompts;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_THAT(prompts(R"("a")"), ElementsAre(PromptField("a")));
  EXPECT_THAT(prompts(R"(["a","b"])"), ElementsAre(PromptField("a"), PromptField("b")));
  EXPECT_THAT(prompts("[1,2]"), ElementsAre(PromptField(Ids{1, 2})));
  EXPECT_THAT(prompts("[[1],[2,3]]"), ElementsAre(PromptField(Ids{1}), PromptField(Ids{2, 3})));
  for (const char* wrong : {"[]", "null", "3", "[[]]", "[\"a\",1.5]", "[-1]", "[[1,\"a\"]]",
                            "[4294967296]", "{}", "true"}) {
    EXPECT_THAT(prompts(wrong), IsEmpty()) << wrong;
  }
}

TEST(ParseCompletions, RefusesWrongValuesByName) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"(,"n":0)", "n"},
      {R"(,"n":1.5)", "n"},
      {R"(,"n":18446744073709551615)", "n"},
      {R"(,"max_tokens":-1)", "max_tokens"},
      {R"(,"seed":-1)", "seed"},
      {R"(,"temperature":-0.1)", "temperature"},
      {R"(,"temperature":"hot")", "temperature"},
      {R"(,"top_p":0)", "top_p"},
      {R"(,"top_p":1.5)", "top_p"},
      {R"(,"top_k":0)", "top_k"},
      {R"(,"logprobs":21)", "logprobs"},
      {R"(,"logprobs":true)", "logprobs"},
      {R"(,"echo":1)", "echo"},
      {R"(,"stop":[""])", "stop"},
      {R"(,"stop":["a",1])", "stop"},
      {R"(,"logit_bias":{"x":1})", "logit_bias"},
      {R"(,"logit_bias":{"1":101})", "logit_bias"},
      {R"(,"logit_bias":[1])", "logit_bias"},
      {R"(,"n":2,"best_of":3)", "best_of"},
      {R"(,"stream_options":{"include_usage":true})", "stream_options"},
      {R"(,"user":3)", "user"}};
  for (const auto& [more, param] : wrong) {
    const ApiError error = CompletionError(more);
    EXPECT_EQ(error.param, param) << more;
    EXPECT_THAT(error.message, HasSubstr(absl::StrCat(param, " = "))) << more;
    EXPECT_EQ(error.status, 400);
  }
}

TEST(ParseCompletions, RefusesWhatItDoesNotSupportByName) {
  for (const char* field : {"suffix", "logit_bais", "modalities", "store"}) {
    const ApiError error = CompletionError(absl::StrCat(",\"", field, "\":1"));
    EXPECT_EQ(error.param, field);
    EXPECT_EQ(error.code, "unsupported_parameter");
    EXPECT_THAT(error.message, HasSubstr(field));
  }
  EXPECT_EQ(CompletionError(R"(,"stream":true,"stream_options":{"x":1})").param,
            "stream_options.x");
  EXPECT_EQ(CompletionError(R"(,"suffix":null)").message, "");
}

TEST(ParseCompletions, RefusesWhatIsNoObjectOfJson) {
  for (const char* body : {"", "{", "[1]", "3", "{\"a\":1,\"a\":2}", "{\"model\":\"\xFF\"}",
                           "{\"model\":\"m\"} x", "\xEF\xBB\xBF{}"}) {
    EXPECT_EQ(ErrorOfParsed(ParseCompletions(body)).code, "invalid_json") << body;
  }
  EXPECT_EQ(ErrorOfParsed(ParseCompletions(R"({"prompt":"x"})")).param, "model");
  EXPECT_EQ(ErrorOfParsed(ParseCompletions(std::string(100, '['))).code, "invalid_json");
}

TEST(ParseChat, ReadsTheConversationAsTheTemplateDoes) {
  Parsed<ChatRequest> parsed = ParseChat(
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],)"
      R"("tools":[{"type":"function","function":{"name":"f"}}],"max_completion_tokens":5,)"
      R"("logprobs":true,"top_logprobs":3})");
  ASSERT_EQ(ErrorOfParsed(parsed).message, "");
  const auto& request = std::get<ChatRequest>(parsed);
  EXPECT_EQ(request.conversation.messages,
            R"([{"role":"user","content":[{"type":"text","text":"x"}]}])");
  EXPECT_EQ(request.conversation.tools, R"([{"type":"function","function":{"name":"f"}}])");
  EXPECT_EQ(request.answer.max_tokens, 5);
  EXPECT_EQ(request.answer.top_logprobs, 3);
}

TEST(ParseChat, RefusesWhatItDoesNotSupportByName) {
  EXPECT_EQ(ChatError(R"(,"tool_choice":"required")").param, "tool_choice");
  EXPECT_EQ(ChatError(R"(,"tools":{})").param, "tools");
  EXPECT_EQ(ChatError(R"(,"top_logprobs":1)").param, "top_logprobs");
  EXPECT_EQ(ChatError(R"(,"echo":true)").param, "echo");
  EXPECT_EQ(ChatError(R"(,"max_tokens":1,"max_completion_tokens":2)").param,
            "max_completion_tokens");
  EXPECT_EQ(ErrorOfParsed(ParseChat(R"({"model":"m","messages":[]})")).param, "messages");
  for (const char* const name : {"audio", "function_call", "refusal", "frob"}) {
    const ApiError error = ErrorOfParsed(ParseChat(
        absl::StrCat(R"({"model":"m","messages":[{"role":"user",")", name, R"(":"x"}]})")));
    EXPECT_EQ(error.param, absl::StrCat("messages.", name));
    EXPECT_EQ(error.code, "unsupported_parameter");
  }
  EXPECT_EQ(ChatError(R"(,"tools":[],"tool_choice":"none","max_tokens":2)").message, "");
}

TEST(ParseChat, ReadsTheFormOfTheAnswer) {
  const auto schema = [](const std::string& format) {
    const Parsed<ChatRequest> parsed =
        ParseChat(absl::StrCat(R"({"model":"m","messages":[{}],"response_format":)", format, "}"));
    return std::holds_alternative<ApiError>(parsed)
               ? std::get<ApiError>(parsed).param
               : std::get<ChatRequest>(parsed).answer.sampling.json_schema;
  };
  EXPECT_EQ(schema(R"({"type":"text"})"), "");
  EXPECT_EQ(schema(R"({"type":"json_object"})"), R"({"type":"object"})");
  EXPECT_EQ(schema(R"({"type":"json_schema","json_schema":{"name":"n","strict":true,)"
                   R"("schema":{"type":"integer"}}})"),
            R"({"type":"integer"})");
  EXPECT_EQ(schema(R"({"type":"json_schema","json_schema":{"name":"n"}})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(schema(R"({"type":"json_schema","json_schema":{"schema":"/etc/passwd"}})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(schema(R"({"type":"xml"})"), "response_format.type");
  EXPECT_EQ(schema(R"({"type":"text","x":1})"), "response_format.x");
}

TEST(ParseResponses, ReadsTextsAndMessages) {
  const auto messages = [](const std::string& more) {
    const Parsed<ResponsesRequest> parsed =
        ParseResponses(absl::StrCat(R"({"model":"m")", more, "}"));
    return std::holds_alternative<ApiError>(parsed)
               ? std::get<ApiError>(parsed).param
               : std::get<ResponsesRequest>(parsed).chat.conversation.messages;
  };
  EXPECT_EQ(messages(R"(,"input":"x")"), R"([{"role":"user","content":"x"}])");
  EXPECT_EQ(
      messages(R"(,"instructions":"s","input":[{"type":"message","id":"i","role":"assistant",)"
               R"("status":"completed","content":[{"type":"output_text","text":"a",)"
               R"("annotations":[]},{"type":"output_text","text":"b"}]}])"),
      R"([{"role":"system","content":"s"},{"role":"assistant","content":"ab"}])");
  EXPECT_EQ(messages(""), "input");
  EXPECT_EQ(messages(R"(,"input":[])"), "input");
  EXPECT_EQ(messages(R"(,"input":[3])"), "input.role");
  EXPECT_EQ(messages(R"(,"input":[{"role":"user"}])"), "input.content");
  EXPECT_EQ(messages(R"(,"input":[{"role":"user","content":[{"type":"input_image"}]}])"),
            "input.content.type");
  EXPECT_EQ(messages(R"(,"input":[{"type":"reasoning","role":"user","content":"x"}])"),
            "input.type");
  EXPECT_EQ(messages(R"(,"input":"x","previous_response_id":"y")"), "previous_response_id");
  EXPECT_EQ(messages(R"(,"input":"x","store":true)"), "store");
  EXPECT_EQ(messages(R"(,"input":"x","truncation":"auto")"), "truncation");
  EXPECT_EQ(messages(R"(,"input":"x","tools":[{}])"), "tools");
  EXPECT_EQ(messages(R"(,"input":"x","text":{"format":{"type":"xml"}})"), "text.format.type");
  EXPECT_EQ(messages(R"(,"input":"x","text":{"format":{"type":"json_schema","name":"n"}})"),
            "text.format.schema");
}

TEST(ParseTokenize, ReadsATextOrAConversation) {
  EXPECT_EQ(
      std::get<std::string>(std::get<TokenizeRequest>(ParseTokenize(R"({"prompt":""})")).prompt),
      "");
  EXPECT_EQ(std::get<ConversationFields>(
                std::get<TokenizeRequest>(ParseTokenize(R"({"messages":[{}]})")).prompt)
                .messages,
            "[{}]");
  EXPECT_EQ(ErrorOfParsed(ParseTokenize("{}")).param, "prompt");
  EXPECT_EQ(ErrorOfParsed(ParseTokenize(R"({"prompt":"","x":1})")).param, "x");
}

TEST(CheckSource, KnowsItsNamesAndItsOwnPages) {
  Settings settings;
  settings.names = {"box.lan"};
  const auto status = [&](const std::string& host, const std::string& origin = "") {
    const auto error = CheckSource({.host = host, .origin = origin}, settings);
    return error ? error->status : 200;
  };
  for (const char* own : {"localhost", "localhost:8080", "LocalHost:1", "127.0.0.1:8080", "[::1]:8",
                          "[::1]", "192.168.1.2", "box.lan:8080", "Box.LAN"}) {
    EXPECT_EQ(status(own), 200) << own;
  }
  for (const char* other : {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                            "box.lan.evil", "[::1", "[", ":8080"}) {
    EXPECT_EQ(status(other), *other == '[' && other[1] == ':' ? 200 : 403) << other;
  }
  EXPECT_EQ(status("localhost:8080", "http://localhost:8080"), 200);
  EXPECT_EQ(status("localhost:8080", "https://localhost:8080"), 200);
  for (const char* origin : {"null", "http://localhost", "http://localhost:8081",
                             "http://evil.example", "http://localhost:8080.evil.example"}) {
    EXPECT_EQ(status("localhost:8080", origin), 403) << origin;
  }
}

TEST(CheckKey, TakesTheWholeKeyOnly) {
  Settings settings;
  settings.key = "sesame";
  const auto refused = [&](const std::string& header) {
    return CheckKey({.authorization = header}, settings).has_value();
  };
  EXPECT_FALSE(refused("Bearer sesame"));
  for (const char* wrong :
       {"", "sesame", "Bearer ", "Bearer sesam", "Bearer sesames", "Bearer sesamesesame",
        "bearer sesame", "Basic sesame", "Bearer Sesame"}) {
    EXPECT_TRUE(refused(wrong)) << wrong;
  }
  settings.key = "";
  EXPECT_FALSE(refused(""));
  EXPECT_TRUE(SameSecret("", ""));
  EXPECT_FALSE(SameSecret("", std::string(1, '\0')));
}

TEST(AnswerJson, NamesTokensThatAreNoTextByTheirBytes) {
  const std::vector<ShownToken> tokens = {
      {.bytes = "<s>", .special = true},
      {.bytes = "\xC3", .logprob = -1.0, .top = {{"a", -0.5}, {"\xC3", -1.0}}},
      {.bytes = "é", .logprob = -2.0, .top = {{"b", -0.5}}}};
  const Choice choice = {.text = "x", .tokens = &tokens, .stop_reason = StopReason::kEot};
  const Json json = AnswerJson({.id = "i", .model = "m"}, {&choice, 1}, {3, 1, 2});
  const Json& logprobs = json["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::parse(R"(["<s>","bytes:\\xc3","é"])"));
  EXPECT_EQ(logprobs["token_logprobs"], Json::parse("[null,-1.0,-2.0]"));
  EXPECT_EQ(logprobs["text_offset"], Json::parse("[0,0,1]"));
  EXPECT_EQ(logprobs["top_logprobs"],
            Json::parse(R"([null,{"a":-0.5,"bytes:\\xc3":-1.0},{"b":-0.5,"é":-2.0}])"));
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["usage"], Json::parse(R"({"prompt_tokens":3,"completion_tokens":2,
      "total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}})"));
}

}  // namespace
}  // namespace ng::serve
