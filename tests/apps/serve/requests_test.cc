// Bodies of requests: what is read, and what is refused by its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/serve/access.h"
#include "apps/serve/answers/forms/openai_choices.h"
#include "apps/serve/requests/field_readers.h"
#include "apps/serve/requests/openai_requests.h"
#include "apps/serve/requests/request_fields.h"
#include "apps/serve/requests/sampler_settings.h"

namespace ng::serve {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

Parsed<Request> ParseCompletions(std::string_view body) { return ParseRequest(kCompletions, body); }
Parsed<Request> ParseChat(std::string_view body) { return ParseRequest(kChat, body); }
Parsed<Request> ParseResponses(std::string_view body) { return ParseRequest(kResponses, body); }
Parsed<Request> ParseTokenize(std::string_view body) { return ParseRequest(kTokenize, body); }

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

Request Parse(const std::string& more) {
  Parsed<Request> parsed = ParseCompletions(Completion(more));
  EXPECT_EQ(ErrorOfParsed(parsed).message, "");
  return std::get<Request>(std::move(parsed));
}

// The config that a request's settings are put over.
Config ConfigOf(const std::string& chain) {
  static constexpr OptionSpec kSpec = TextOption("sampler.chain", "", "");
  ConfigItem item;
  item.declared = {.key = "sampler.chain", .spec = &kSpec, .form = ConfigForm::kNames};
  item.value.type = OptionType::kText;
  item.value.text = chain;
  return Config({item});
}
std::vector<std::string> SettingsFor(const std::string& more,
                                     const std::string& chain = "temperature,top_k") {
  const std::vector<int32_t> stop_ids = {2, 7};
  return SettingsOf(Parse(more).answer.sampling, ConfigOf(chain), stop_ids).settings;
}

TEST(ParseCompletions, LeavesToTheConfigWhatARequestDoesNotSay) {
  const Request request = Parse("");
  EXPECT_EQ(request.answer.model, "m");
  EXPECT_FALSE(request.answer.max_tokens);
  EXPECT_EQ(request.answer.n, 1);
  EXPECT_FALSE(request.answer.stream || request.answer.logprobs || request.echo);
  EXPECT_FALSE(request.answer.sampling.seed || request.answer.sampling.temperature);
  EXPECT_FALSE(Parse(R"(,"temperature":null,"stop":null)").answer.sampling.temperature);
}

TEST(ParseCompletions, ReadsEveryField) {
  const Request request = Parse(
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
  std::vector<std::string> stages;
  for (const StageSetting& one : answer.sampling.stages) {
    stages.push_back(absl::StrCat(std::string(one.stage), "=", one.value));
  }
  EXPECT_THAT(stages, ElementsAre("top_p=0.5", "top_k=4", "min_p=0.25", "frequency_penalty=1.0",
                                  "presence_penalty=-1.0"));
  EXPECT_THAT(answer.sampling.logit_bias, ElementsAre(Pair(5, -2.5)));
  EXPECT_THAT(answer.sampling.stop, ElementsAre("a", "b"));
  EXPECT_THAT(Parse(R"(,"stop":"x")").answer.sampling.stop, ElementsAre("x"));
}

TEST(ParseCompletions, ReadsPromptsOfEveryForm) {
  const auto prompts = [](const std::string& prompt) {
    Parsed<Request> parsed =
        ParseCompletions(absl::StrCat(R"({"model":"m","prompt":)", prompt, "}"));
    return std::holds_alternative<ApiError>(parsed) ? std::vector<PromptField>()
                                                    : std::get<Request>(std::move(parsed)).prompts;
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
      {R"(,"top_k":-2)", "top_k"},
      {R"(,"logit_bias":{"5":1,"05":2})", "logit_bias"},
      {R"(,"stop":"a\u0000b")", "stop"},
      {R"(,"stop":"\r")", "stop"},
      {R"(,"repetition_penalty":1.1,"repeat_penalty":1.2)", "repeat_penalty"},
      {R"(,"mirostat":1)", "mirostat"},
      {R"(,"grammar":"/etc/passwd")", "grammar"},
      {R"(,"guided_json":"/etc/passwd")", "guided_json"},
      {R"(,"guided_json":{},"guided_regex":"a")", "guided_regex"},
      {R"(,"dry_sequence_breakers":["a",""])", "dry_sequence_breakers"},
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
    EXPECT_THAT(error.message, HasSubstr(param)) << more;
    EXPECT_EQ(error.status, 400);
  }
}

TEST(ParseCompletions, RefusesWhatItDoesNotSupportByName) {
  for (const char* field : {"logit_bais", "modalities", "samplers", "guided_choice"}) {
    const ApiError error = CompletionError(absl::StrCat(",\"", field, "\":1"));
    EXPECT_EQ(error.param, field);
    EXPECT_EQ(error.code, "unsupported_parameter");
    EXPECT_THAT(error.message, HasSubstr(field));
  }
  EXPECT_EQ(CompletionError(R"(,"stream":true,"stream_options":{"x":1})").param,
            "stream_options.x");
  EXPECT_EQ(CompletionError(R"(,"suffix":"x")").param, "suffix");
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
  Parsed<Request> parsed = ParseChat(
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],)"
      R"("tools":[{"type":"function","function":{"name":"f"}}],"max_completion_tokens":5,)"
      R"("logprobs":true,"top_logprobs":3})");
  ASSERT_EQ(ErrorOfParsed(parsed).message, "");
  const auto& request = std::get<Request>(parsed);
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
  // What litellm adds to an answer that is sent back.
  EXPECT_EQ(ErrorOfParsed(ParseChat(R"({"model":"m","messages":[{"role":"assistant","content":"x",)"
                                    R"("provider_specific_fields":{"refusal":null},)"
                                    R"("thinking_blocks":[]}]})"))
                .message,
            "");
  EXPECT_EQ(ChatError(R"(,"tools":[],"tool_choice":"none","max_tokens":2)").message, "");
}

TEST(ParseChat, ReadsTheFormOfTheAnswer) {
  const auto schema = [](const std::string& format) {
    const Parsed<Request> parsed =
        ParseChat(absl::StrCat(R"({"model":"m","messages":[{}],"response_format":)", format, "}"));
    return std::holds_alternative<ApiError>(parsed)
               ? std::get<ApiError>(parsed).param
               : std::get<Request>(parsed).answer.sampling.form.value;
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
    const Parsed<Request> parsed = ParseResponses(absl::StrCat(R"({"model":"m")", more, "}"));
    return std::holds_alternative<ApiError>(parsed)
               ? std::get<ApiError>(parsed).param
               : std::get<Request>(parsed).conversation.messages;
  };
  EXPECT_EQ(messages(R"(,"input":"x")"), R"([{"role":"user","content":"x"}])");
  EXPECT_EQ(
      messages(R"(,"instructions":"s","input":[{"type":"message","id":"i","role":"assistant",)"
               R"("status":"completed","content":[{"type":"output_text","text":"a",)"
               R"("annotations":[]},{"type":"output_text","text":"b"}]}])"),
      R"([{"role":"assistant","content":"ab"}])");
  EXPECT_EQ(messages(""), "input");
  EXPECT_EQ(messages(R"(,"input":[])"), "input");
  EXPECT_EQ(messages(R"(,"input":[3])"), "input.role");
  EXPECT_EQ(messages(R"(,"input":[{"role":"user"}])"), "input.content");
  EXPECT_EQ(messages(R"(,"input":[{"role":"user","content":[{"type":"input_image"}]}])"),
            "input.content.type");
  EXPECT_EQ(messages(R"(,"input":[{"type":"computer_call"}])"), "input.type");
  EXPECT_EQ(messages(R"(,"input":[{"type":"reasoning","content":"x"}])"), "input.content");
  EXPECT_EQ(messages(R"(,"input":"x","store":1)"), "store");
  EXPECT_EQ(messages(R"(,"input":"x","truncation":"auto")"), "truncation");
  EXPECT_EQ(messages(R"(,"input":"x","tools":[{}])"), "tools.type");
  EXPECT_EQ(messages(R"(,"input":"x","include":["file_search_call.results"])"), "include");
  EXPECT_EQ(messages(R"(,"input":"x","text":{"format":{"type":"xml"}})"), "text.format.type");
  EXPECT_EQ(messages(R"(,"input":"x","text":{"format":{"type":"json_schema","name":"n"}})"),
            "text.format.schema");
}

// The request of a kind, or nothing where it is refused.
Request RequestOf(Api api, const std::string& body) {
  Parsed<Request> parsed = ParseRequest(api, body);
  EXPECT_EQ(ErrorOfParsed(parsed).message, "") << body;
  if (std::holds_alternative<ApiError>(parsed)) return {};
  return std::get<Request>(std::move(parsed));
}

TEST(ParseResponses, ReadsItemsAsMessagesOfAChat) {
  const Request request = RequestOf(kResponses, R"({"model":"m","instructions":"s","input":[
      {"role":"user","content":"q"},
      {"type":"reasoning","id":"r","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]},
      {"type":"function_call","call_id":"c1","name":"f","arguments":"{\"x\": 1}","id":"i","status":"completed"},
      {"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},
      {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"two"}]},
      {"type":"function_call_output","call_id":"c1","output":"one"}],
      "tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":true}],
      "reasoning":{"effort":"low","summary":"auto"},"store":false,"previous_response_id":"p",
      "parallel_tool_calls":false})");
  const ConversationFields& conversation = request.conversation;
  EXPECT_EQ(Json::parse(conversation.messages), Json::parse(R"([{"role":"user","content":"q"},
      {"role":"assistant","content":"a","reasoning_content":"hm","tool_calls":[
        {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},
        {"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},
      {"role":"tool","content":"two","tool_call_id":"c2","name":"g"},
      {"role":"tool","content":"one","tool_call_id":"c1","name":"f"}])"));
  EXPECT_EQ(conversation.instructions, R"({"role":"system","content":"s"})");
  EXPECT_EQ(conversation.tools, R"([{"type":"function","function":{"name":"f","description":"d",)"
                                R"("parameters":{"type":"object"},"strict":true}}])");
  EXPECT_EQ(conversation.variables["reasoning_effort"], "low");
  EXPECT_EQ(conversation.previous, "p");
  EXPECT_FALSE(request.store || conversation.parallel_calls || conversation.goes_on);
  EXPECT_EQ(request.said["tools"][0]["name"], "f");
}

std::string BlockBody(const std::string& messages, const std::string& more = "") {
  return absl::StrCat(R"({"model":"m","max_tokens":5,"messages":)", messages, more, "}");
}

TEST(ParseMessages, ReadsBlocksAsMessagesOfAChat) {
  const Request request = RequestOf(
      kMessages, BlockBody(R"([{"role":"user","content":[
          {"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
          {"type":"text","text":"So."},
          {"type":"tool_use","id":"t1","name":"f","input":{"b":1,"a":"x"},"caller":null},
          {"type":"tool_use","id":"t2","name":"g","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"one"},
          {"type":"tool_result","tool_use_id":"t2","is_error":true,
           "content":[{"type":"text","text":"no"}]},
          {"type":"text","text":"and?"}]}])",
                           R"(,"system":[{"type":"text","text":"s"},{"type":"text","text":"t"}],
        "tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],
        "tool_choice":{"type":"auto","disable_parallel_tool_use":true},
        "thinking":{"type":"enabled","budget_tokens":9},"stop_sequences":["END"],"stream":true,
        "metadata":{"user_id":"u"},"temperature":0)"));
  EXPECT_EQ(Json::parse(request.conversation.messages), Json::parse(R"([
      {"role":"system","content":"s\nt"},{"role":"user","content":"a\nb"},
      {"role":"assistant","content":"So.","reasoning_content":"hm","tool_calls":[
        {"id":"t1","type":"function","function":{"name":"f","arguments":"{\"b\":1,\"a\":\"x\"}"}},
        {"id":"t2","type":"function","function":{"name":"g","arguments":"{}"}}]},
      {"role":"tool","content":"one","tool_call_id":"t1","name":"f"},
      {"role":"tool","content":"Error: no","tool_call_id":"t2","name":"g"},
      {"role":"user","content":"and?"}])"));
  EXPECT_EQ(request.conversation.tools,
            R"([{"type":"function","function":{"name":"f","description":"d",)"
            R"("parameters":{"type":"object"}}}])");
  EXPECT_FALSE(request.conversation.parallel_calls);
  EXPECT_EQ(request.conversation.variables,
            Json::parse(R"({"enable_thinking":true,"thinking":true,"thinking_budget":9})"));
  EXPECT_THAT(request.answer.sampling.stop, ElementsAre("END"));
  EXPECT_EQ(request.answer.max_tokens, 5);
  EXPECT_TRUE(request.answer.stream);
  EXPECT_THAT(request.inert, ElementsAre("metadata"));
}

TEST(ParseMessages, RefusesWhatItDoesNotSupportByName) {
  const auto param = [](const std::string& messages, const std::string& more = "") {
    return ErrorOfParsed(ParseRequest(kMessages, BlockBody(messages, more))).param;
  };
  const std::string hi = R"([{"role":"user","content":"hi"}])";
  EXPECT_EQ(param(hi), "");
  EXPECT_EQ(param("[]"), "messages");
  EXPECT_EQ(param(R"([{"role":"tool","content":"x"}])"), "messages.role");
  EXPECT_EQ(param(R"([{"role":"user"}])"), "messages.content");
  EXPECT_EQ(param(R"([{"role":"user","content":[{"type":"image","source":{}}]}])"),
            "messages.content.type");
  EXPECT_EQ(param(R"([{"role":"user","content":[{"type":"tool_use","id":"x"}]}])"),
            "messages.content.type");
  EXPECT_EQ(param(R"([{"role":"user","content":[{"type":"text","text":"x","frob":1}]}])"),
            "messages.content.frob");
  EXPECT_EQ(
      param(
          R"([{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"y"}]}])"),
      "messages.content.tool_use_id");
  EXPECT_EQ(param(hi, R"(,"tools":[{"type":"web_search_20250305","name":"web_search"}])"),
            "tools.type");
  EXPECT_EQ(param(hi, R"(,"tools":[{"name":"f"}])"), "tools.input_schema");
  EXPECT_EQ(param(hi, R"(,"tool_choice":{"type":"any"})"), "tool_choice");
  EXPECT_EQ(param(hi, R"(,"tool_choice":{"type":"some"})"), "tool_choice.type");
  EXPECT_EQ(param(hi, R"(,"thinking":{"type":"much"})"), "thinking.type");
  EXPECT_EQ(param(hi, R"(,"output_config":{"effort":"vast"})"), "output_config.effort");
  EXPECT_EQ(param(hi, R"(,"output_config":{"format":{"type":"xml"}})"),
            "output_config.format.type");
  EXPECT_EQ(param(hi, R"(,"stop_sequences":[""])"), "stop_sequences");
  EXPECT_EQ(param(hi, R"(,"container":"c")"), "container");
  EXPECT_EQ(param(hi, R"(,"mcp_servers":[{}])"), "mcp_servers");
  EXPECT_EQ(param(hi, R"(,"context_management":{"edits":[{"type":"clear_tool_uses"}]})"),
            "context_management");
  EXPECT_EQ(
      param(hi, R"(,"context_management":{"edits":[{"type":"clear_thinking","keep":"all"}]})"), "");
  EXPECT_EQ(
      ErrorOfParsed(ParseRequest(kCountTokens, R"({"model":"m","messages":[],"stream":true})"))
          .param,
      "messages");
}

std::string OllamaBody(const std::string& messages, const std::string& more = "") {
  return absl::StrCat(R"({"model":"m:latest","messages":)", messages, more, "}");
}

TEST(ParseOllama, ReadsMessagesOfAChatAndOptions) {
  const Request request = RequestOf(
      kOllamaChat, OllamaBody(R"([{"role":"user","content":"q","images":[]},
          {"role":"assistant","content":"So.","thinking":"hm","tool_calls":[
            {"function":{"name":"f","arguments":{"x":1}}},
            {"id":"own","function":{"index":1,"name":"g","arguments":{}}},
            {"function":{"name":"f","arguments":{"x":2}}}]},
          {"role":"tool","tool_name":"g","content":"of g"},
          {"role":"tool","tool_name":"f","content":"one"},
          {"role":"tool","content":"two"}])",
                              R"(,"options":{"num_predict":7,"num_ctx":16,"temperature":0.5,
          "repeat_penalty":1.1,"stop":["x"],"num_thread":3,"seed":4},"think":true,
          "format":{"type":"integer"},"keep_alive":"5m",
          "tools":[{"type":"function","function":{"name":"f"}}])"));
  EXPECT_EQ(request.answer.model, "m");
  EXPECT_TRUE(request.answer.stream);
  EXPECT_EQ(Json::parse(request.conversation.messages), Json::parse(R"([
      {"role":"user","content":"q"},
      {"role":"assistant","content":"So.","reasoning_content":"hm","tool_calls":[
        {"id":"call00001","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
        {"id":"own","type":"function","function":{"name":"g","arguments":"{}"}},
        {"id":"call00003","type":"function","function":{"name":"f","arguments":"{\"x\":2}"}}]},
      {"role":"tool","content":"of g","tool_call_id":"own","name":"g"},
      {"role":"tool","content":"one","tool_call_id":"call00001","name":"f"},
      {"role":"tool","content":"two","tool_call_id":"call00003","name":"f"}])"));
  EXPECT_EQ(request.conversation.variables["enable_thinking"], true);
  EXPECT_EQ(request.conversation.tools, R"([{"type":"function","function":{"name":"f"}}])");
  EXPECT_EQ(request.answer.max_tokens, 7);
  EXPECT_EQ(request.answer.num_ctx, 16);
  EXPECT_EQ(request.answer.sampling.temperature, 0.5);
  EXPECT_EQ(request.answer.sampling.seed, 4);
  EXPECT_THAT(request.answer.sampling.stop, ElementsAre("x"));
  EXPECT_EQ(request.answer.sampling.form.value, R"({"type":"integer"})");
  EXPECT_THAT(request.inert, ElementsAre("num_thread", "keep_alive"));
  EXPECT_FALSE(
      RequestOf(kOllamaChat, OllamaBody(R"([{"role":"user","content":"q"}])", R"(,"stream":false)"))
          .answer.stream);
}

TEST(ParseOllama, ReadsAPromptOrNothing) {
  const Request request =
      RequestOf(kOllamaGenerate, R"({"model":"m","prompt":"p","system":"s","format":"json"})");
  EXPECT_EQ(request.conversation.messages,
            R"([{"role":"system","content":"s"},{"role":"user","content":"p"}])");
  EXPECT_EQ(request.answer.sampling.form.value, kAnyObjectSchema);
  EXPECT_FALSE(request.raw || request.asks_nothing);
  EXPECT_TRUE(RequestOf(kOllamaGenerate, R"({"model":"m"})").asks_nothing);
  EXPECT_TRUE(RequestOf(kOllamaChat, OllamaBody("[]")).asks_nothing);
  const Request raw = RequestOf(kOllamaGenerate, R"({"model":"m","prompt":"p","raw":true})");
  EXPECT_TRUE(raw.raw);
  EXPECT_THAT(raw.prompts, ElementsAre(PromptField("p")));
  EXPECT_EQ(RequestOf(kOllamaShow, R"({"name":"m:latest","verbose":false})").answer.model, "m");
}

// The beginning of an answer goes on, unless it ends with calls.
TEST(ParseRequest, GoesOnWithALastMessageOfTheAssistants) {
  const auto goes_on = [](Api api, const std::string& last, const std::string& more = "") {
    const std::string body =
        absl::StrCat(R"({"model":"m",)", api == kResponses ? "\"input\"" : "\"messages\"",
                     R"(:[{"role":"user","content":"x"},)", last, "]", more, "}");
    const Parsed<Request> parsed = ParseRequest(api, body);
    if (std::holds_alternative<ApiError>(parsed)) return std::get<ApiError>(parsed).param;
    return std::string(std::get<Request>(parsed).conversation.goes_on ? "yes" : "no");
  };
  const std::string begun = R"({"role":"assistant","content":"So"})";
  for (const Api api : {kChat, kMessages, kResponses}) {
    EXPECT_EQ(goes_on(api, begun), "yes") << api;
    EXPECT_EQ(goes_on(api, R"({"role":"user","content":"y"})"), "no") << api;
    EXPECT_EQ(goes_on(api, R"({"role":"assistant","content":""})"), "no") << api;
  }
  EXPECT_EQ(goes_on(kChat, R"({"role":"assistant","content":"x","tool_calls":[{}]})"), "no");
  EXPECT_EQ(goes_on(kChat, begun, R"(,"continue_final_message":false)"), "no");
  EXPECT_EQ(
      goes_on(kChat, begun, R"(,"continue_final_message":true,"add_generation_prompt":false)"),
      "yes");
  EXPECT_EQ(goes_on(kChat, R"({"role":"user","content":"y"})", R"(,"continue_final_message":true)"),
            "continue_final_message");
  EXPECT_EQ(goes_on(kChat, R"({"role":"user","content":"y"})", R"(,"add_generation_prompt":false)"),
            "add_generation_prompt");
}

// What a request says of thinking becomes variables of the template, its own ones last.
TEST(ParseRequest, TellsTheTemplateHowMuchToThink) {
  const auto variables = [](const std::string& more) {
    return RequestOf(kChat,
                     R"({"model":"m","messages":[{"role":"user","content":"x"}])" + more + "}")
        .conversation.variables;
  };
  EXPECT_EQ(variables(""), Json::object());
  EXPECT_EQ(variables(R"(,"reasoning_effort":"none")"),
            Json::parse(R"({"enable_thinking":false,"thinking":false})"));
  EXPECT_EQ(variables(R"(,"reasoning_effort":"high")"),
            Json::parse(R"({"enable_thinking":true,"thinking":true,"reasoning_effort":"high"})"));
  EXPECT_EQ(
      variables(R"(,"enable_thinking":false,"chat_template_kwargs":{"enable_thinking":true})"),
      Json::parse(R"({"enable_thinking":true,"thinking":false})"));
  EXPECT_EQ(ChatError(R"(,"reasoning_effort":"vast")").param, "reasoning_effort");
}

TEST(ParseTokenize, ReadsATextOrAConversation) {
  const auto text = std::get<Request>(ParseTokenize(R"({"prompt":""})"));
  EXPECT_THAT(text.prompts, ElementsAre(PromptField("")));
  EXPECT_EQ(std::get<Request>(ParseTokenize(R"({"messages":[{}]})")).conversation.messages, "[{}]");
  EXPECT_EQ(ErrorOfParsed(ParseTokenize("{}")).param, "prompt");
  EXPECT_EQ(ErrorOfParsed(ParseTokenize(R"({"prompt":"","x":1})")).param, "x");
}

TEST(ParseRequest, NamesTheFieldOfATextThatIsNoUnicode) {
  const ApiError error = ErrorOfParsed(ParseChat(
      R"({"model":"m","messages":[{"role":"user","content":"x"},{"content":"\ud800"}]})"));
  EXPECT_EQ(error.param, "messages.content");
  EXPECT_EQ(error.code, "invalid_json");
  EXPECT_THAT(error.message, HasSubstr("in messages[1].content"));
  EXPECT_EQ(ErrorOfParsed(ParseCompletions(R"({"model":"m","prompt":["a","\udc00"]})")).param,
            "prompt");
  EXPECT_EQ(ErrorOfParsed(ParseCompletions(R"({"\ud800":1})")).param, "");
}

TEST(ParseRequest, PassesOverWhatChangesNothing) {
  const auto inert = [](const std::string& more) {
    const Parsed<Request> parsed = ParseChat(
        absl::StrCat(R"({"model":"m","messages":[{"role":"user","content":"x"}],)", more, "}"));
    return std::holds_alternative<ApiError>(parsed)
               ? std::get<ApiError>(parsed).param + "!"
               : absl::StrJoin(std::get<Request>(parsed).inert, ",");
  };
  EXPECT_EQ(inert(R"("store":false,"metadata":{"a":"b"},"service_tier":"auto")"),
            "metadata,store,service_tier");
  EXPECT_EQ(inert(R"("store":true)"), "store!");
  EXPECT_EQ(inert(R"("modalities":["text"])"), "modalities");
  EXPECT_EQ(inert(R"("modalities":["text","audio"])"), "modalities!");
  EXPECT_EQ(inert(R"("parallel_tool_calls":false,"tools":[{}])"), "");
  EXPECT_EQ(inert(R"("parallel_tool_calls":1)"), "parallel_tool_calls!");
  EXPECT_EQ(inert(R"("cache_prompt":true,"id_slot":-1)"), "cache_prompt,id_slot");
  EXPECT_EQ(inert(R"("store":null)"), "");
}

TEST(SettingsOf, KnowsOtherEnginesNames) {
  EXPECT_THAT(
      SettingsFor(R"(,"repetition_penalty":1.5)"),
      ElementsAre("sampler.chain=repetition_penalty,temperature,top_k",
                  "sampler.repetition_penalty.value=1.5", "sampler.repetition_penalty.window=0"));
  EXPECT_THAT(
      SettingsFor(R"(,"repeat_penalty":1.5,"repeat_last_n":-1)"),
      ElementsAre("sampler.chain=repetition_penalty,temperature,top_k",
                  "sampler.repetition_penalty.value=1.5", "sampler.repetition_penalty.window=0"));
  EXPECT_THAT(SettingsFor(R"(,"typical_p":0.5)"),
              ElementsAre("sampler.chain=temperature,top_k,typical_p", "sampler.typical_p.p=0.5"));
  EXPECT_THAT(SettingsFor(R"(,"xtc_probability":0.5,"xtc_threshold":0.25)"),
              ElementsAre("sampler.chain=temperature,top_k,xtc", "sampler.xtc.probability=0.5",
                          "sampler.xtc.threshold=0.25"));
  EXPECT_THAT(SettingsFor(R"(,"mirostat":2,"mirostat_tau":4,"top_p":0.5)"),
              ElementsAre("sampler.chain=temperature,mirostat", "sampler.mirostat.tau=4.0"));
  EXPECT_THAT(SettingsFor(R"(,"ignore_eos":true)"),
              ElementsAre("sampler.chain=banned_tokens,temperature,top_k",
                          "sampler.banned_tokens.ids=2,7"));
  EXPECT_THAT(SettingsFor(R"(,"dry_multiplier":0.5,"dry_sequence_breakers":["\n",","])"),
              ElementsAre("sampler.chain=dry,temperature,top_k", "sampler.dry.multiplier=0.5",
                          R"(sampler.dry.breakers=\n,\,)"));
}

// A budget of thoughts in each API's words, and in other engines'.
TEST(SettingsOf, BoundsThoughts) {
  const auto settings = [](const std::string& more,
                           const std::string& chain = "temperature,top_k") {
    const Request request =
        RequestOf(kChat, R"({"model":"m","messages":[{"role":"user","content":"x"}])" + more + "}");
    return SettingsOf(request.answer.sampling, ConfigOf(chain), {}).settings;
  };
  for (const char* const field :
       {R"(,"reasoning":{"max_tokens":9})", R"(,"thinking":{"type":"enabled","budget_tokens":9})",
        R"(,"thinking_budget":9)", R"(,"thinking_budget_tokens":9)",
        R"(,"thinking_token_budget":9)", R"(,"reasoning_budget":9)",
        R"(,"reasoning":{"max_tokens":9},"thinking_budget":9)"}) {
    EXPECT_THAT(settings(field), ElementsAre("sampler.chain=thoughts,temperature,top_k",
                                             "sampler.thoughts.budget=9"))
        << field;
  }
  EXPECT_THAT(settings(R"(,"thinking_budget":-1)"), IsEmpty());
  EXPECT_THAT(settings(R"(,"thinking_budget":-1)", "thoughts,greedy"),
              ElementsAre("sampler.chain=greedy"));
  // What has its form from the first token on has no thoughts.
  EXPECT_THAT(settings(R"(,"thinking_budget":9,"guided_regex":"a")", "thoughts,greedy"),
              Contains("sampler.chain=grammar,greedy"));
  EXPECT_THAT(settings(R"(,"thinking_budget":9,"guided_regex":"a")"),
              Not(Contains("sampler.thoughts.budget=9")));
}

// What other engines send because it is their default.
TEST(SettingsOf, SetsNothingForValuesThatDoNothing) {
  EXPECT_THAT(
      SettingsFor(R"(,"repetition_penalty":1,"typical_p":1,"typ_p":1.0,"min_p":0,"top_p":1,)"
                  R"("xtc_probability":0,"xtc_threshold":0.1,"dry_multiplier":0,"dry_base":1.75,)"
                  R"("mirostat":0,"mirostat_tau":5,"top_n_sigma":-1,"ignore_eos":false)"),
      IsEmpty());
  EXPECT_THAT(SettingsFor(R"(,"top_k":0)"), ElementsAre("sampler.chain=temperature"));
  EXPECT_THAT(SettingsFor(R"(,"repeat_last_n":0)", "repetition_penalty,greedy"),
              ElementsAre("sampler.chain=greedy"));
}

// The README lists what the table has: each name in the table of its class.
TEST(FieldRows, AreTheReadmes) {
  std::ifstream file(NG_SOURCE_DIR "/apps/serve/README.md");
  const std::string readme((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
  const auto names_under = [&](const std::string& heading) {
    std::set<std::string> names;
    const size_t begin = readme.find("### " + heading + "\n");
    EXPECT_NE(begin, readme.npos) << heading;
    const std::string part = readme.substr(begin, readme.find("\n##", begin + 1) - begin);
    for (const absl::string_view line : absl::StrSplit(part, '\n')) {
      const std::vector<std::string> cells = absl::StrSplit(line, " | ");
      if (cells.front().substr(0, 3) != "| `") continue;
      const std::vector<std::string> pieces = absl::StrSplit(cells.front(), '`');
      for (size_t i = 1; i < pieces.size(); i += 2) names.insert(pieces[i]);
    }
    return names;
  };
  std::set<std::string> supported, inert, refused;
  for (const FieldRow& row : FieldRows()) {
    (row.read != nullptr ? supported : row.inert != nullptr ? inert : refused).insert(row.name);
  }
  EXPECT_EQ(names_under("Fields that do something"), supported);
  EXPECT_EQ(names_under("Fields that change nothing"), inert);
  EXPECT_EQ(names_under("Fields that are refused"), refused);
}

// Twice as many keys take about twice as long, where looking for each among all takes four times.
TEST(ParseRequest, ReadsLargeObjectsInTimeThatGrowsAsTheyDo) {
  const auto seconds = [](const std::string& field, const std::string& prefix, int n) {
    std::string body = absl::StrCat(R"({"model":"m","prompt":"p",")", field, "\":{");
    for (int i = 0; i < n; ++i) {
      absl::StrAppend(&body, i == 0 ? "" : ",", "\"", prefix, i, "\":1");
    }
    body += "}}";
    double least = 1e9;
    for (int run = 0; run < 2; ++run) {
      const std::clock_t begin = std::clock();  // of this process alone
      EXPECT_NE(ParseCompletions(body).index(), std::variant_npos);
      least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return least;
  };
  constexpr int kFew = 500;
  constexpr int kMany = 16 * kFew;
  for (const auto& [field, prefix] : {std::pair("logit_bias", ""), std::pair("metadata", "k"),
                                      std::pair("guided_json", "k"), std::pair("x", "k")}) {
    // 16 times the keys: 16 to 30 times as long, or 256 times.
    EXPECT_LT(seconds(field, prefix, kMany), 80 * seconds(field, prefix, kFew)) << field;
  }
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
  EXPECT_FALSE(CheckKey({.api_key = "sesame"}, settings));
  EXPECT_FALSE(CheckKey({.authorization = "Bearer other", .api_key = "sesame"}, settings));
  EXPECT_TRUE(CheckKey({.api_key = "sesam"}, settings));
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
