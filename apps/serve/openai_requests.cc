#include "apps/serve/openai_requests.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "absl/strings/str_cat.h"
#include "apps/common/json.h"
#include "apps/serve/fields.h"
#include "ng/json.h"

namespace ng::serve {
namespace {

constexpr int kMaxJsonDepth = 36;  // as --prompts
constexpr int kMostChoices = 128;
constexpr int kMostTopLogprobs = 20;
constexpr size_t kMostStops = 16;
constexpr double kMostPenalty = 100.0;
constexpr double kMostBias = 100.0;
constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();

bool IsId(const Json& value) {
  return value.is_number_integer() && value >= 0 && value <= std::numeric_limits<int32_t>::max();
}

// A text, or a list of texts.
void ReadStop(Fields& fields, SamplingFields* sampling) {
  const Json* const stop = fields.Value("stop");
  if (stop == nullptr) return;
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  const auto is_text = [](const Json& one) {
    return one.is_string() && !one.get_ref<const std::string&>().empty();
  };
  if (list.size() > kMostStops || !std::ranges::all_of(list, is_text)) {
    return fields.Refuse(
        "stop", absl::StrCat("must be a text or up to ", kMostStops, " texts, none of them empty"));
  }
  for (const Json& text : list) sampling->stop.push_back(text.get<std::string>());
}

void ReadLogitBias(Fields& fields, SamplingFields* sampling) {
  const Json* const bias = fields.Object("logit_bias");
  if (bias == nullptr) return;
  for (const auto& [key, value] : bias->items()) {
    int64_t id = -1;
    const char* const end = key.data() + key.size();
    const auto read = std::from_chars(key.data(), end, id);
    const bool is_id = read.ec == std::errc() && read.ptr == end && id >= 0;
    const bool is_bias = value.is_number() && value >= -kMostBias && value <= kMostBias;
    if (!is_id || !is_bias) {
      return fields.Refuse("logit_bias",
                           "must be an object of token ids with numbers in [-100, "
                           "100]");
    }
    sampling->logit_bias.emplace_back(id, value.get<double>());
  }
}

void ReadSampling(Fields& fields, SamplingFields* sampling) {
  sampling->seed = fields.Int("seed", {0, std::numeric_limits<int64_t>::max()});
  sampling->temperature = fields.Real("temperature", {0, kMostTemperature});
  sampling->top_p = fields.Real("top_p", {0, 1, /*min_open=*/true});
  sampling->top_k = fields.Int("top_k", {1, std::numeric_limits<int64_t>::max()});
  sampling->min_p = fields.Real("min_p", {0, 1});
  sampling->frequency_penalty = fields.Real("frequency_penalty", {-kMostPenalty, kMostPenalty});
  sampling->presence_penalty = fields.Real("presence_penalty", {-kMostPenalty, kMostPenalty});
  ReadLogitBias(fields, sampling);
  ReadStop(fields, sampling);
}

// {"type": "text"}, "json_object", or "json_schema" with the schema.
void ReadResponseFormat(Fields& fields, SamplingFields* sampling) {
  const Json* const format = fields.Object("response_format");
  if (format == nullptr) return;
  Fields inner(*format, "response_format.");
  const std::string type = inner.Text("type").value_or("");
  if (type == "json_object") {
    sampling->json_schema = kAnyObjectSchema;
  } else if (type == "json_schema") {
    const Json none = Json::object();
    const Json* const named = inner.Object("json_schema");
    Fields schema(named == nullptr ? none : *named, "response_format.json_schema.");
    sampling->json_schema = ReadSchema(schema);
    if (schema.Finish()) fields.Fail(*schema.error());
  } else if (type != "text") {
    inner.Refuse("type", "must be text, json_object or json_schema");
  }
  if (inner.Finish()) fields.Fail(*inner.error());
}

void ReadStream(Fields& fields, AnswerFields* answer) {
  answer->stream = fields.Bool("stream").value_or(false);
  const Json* const options = fields.Object("stream_options");
  if (options == nullptr) return;
  if (!answer->stream) fields.Refuse("stream_options", "needs stream = true");
  Fields inner(*options, "stream_options.");
  answer->include_usage = inner.Bool("include_usage").value_or(false);
  if (inner.Finish()) fields.Fail(*inner.error());
}

void ReadAnswer(Fields& fields, AnswerFields* answer) {
  answer->model = ReadModel(fields);
  answer->max_tokens = fields.Int("max_tokens", {0, kMostTokens});
  answer->n = static_cast<int>(fields.Int("n", {1, kMostChoices}).value_or(1));
  answer->return_token_ids = fields.Bool("return_token_ids").value_or(false);
  // Who asks: a label, which changes no answer.
  static_cast<void>(fields.Text("user"));
  ReadStream(fields, answer);
  ReadSampling(fields, &answer->sampling);
}

// A list of ids; nothing where it is none.
std::optional<std::vector<int32_t>> IdsOf(const Json& list) {
  if (!list.is_array() || list.empty() || !std::ranges::all_of(list, IsId)) return std::nullopt;
  return list.get<std::vector<int32_t>>();
}

// A text, texts, ids, or lists of ids.
void ReadPrompts(Fields& fields, std::vector<PromptField>* prompts) {
  const Json* const prompt = fields.Value("prompt");
  const Json list = prompt == nullptr                       ? Json::array()
                    : prompt->is_array() && !IdsOf(*prompt) ? *prompt
                                                            : Json::array({*prompt});
  for (const Json& one : list) {
    if (one.is_string()) {
      prompts->emplace_back(one.get<std::string>());
      continue;
    }
    std::optional<std::vector<int32_t>> ids = IdsOf(one);
    if (!ids) prompts->clear();
    if (!ids) break;
    prompts->emplace_back(*std::move(ids));
  }
  if (prompts->empty()) {
    fields.Refuse("prompt", "must be a text, a list of texts, a list of token ids, or several");
  }
}

// As many as `n`, if it is there at all: none is chosen among more.
void ReadBestOf(Fields& fields, int n) {
  const std::optional<int64_t> best_of = fields.Int("best_of", {1, kMostChoices});
  if (best_of && *best_of != n) {
    fields.Refuse("best_of", absl::StrCat("must be n = ", n, ": none is chosen among more"));
  }
}

// What templates read of a message. What is in it is for the template to say.
void CheckMessage(Fields& fields, const Json& message) {
  static constexpr const char* kRead[] = {"role",       "content",      "name",
                                          "tool_calls", "tool_call_id", "reasoning_content",
                                          "reasoning",  "thinking"};
  if (!message.is_object()) return;  // the template's own error says it better
  Fields inner(message, "messages.");
  for (const char* const name : kRead) static_cast<void>(inner.Value(name));
  if (inner.Finish()) fields.Fail(*inner.error());
}

// The conversation as the chat template reads it.
void ReadConversation(Fields& fields, ConversationFields* conversation) {
  const Json* const messages = fields.Value("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    fields.Refuse("messages", "must be a list of messages");
  } else {
    for (const Json& message : *messages) CheckMessage(fields, message);
    conversation->messages = messages->dump();
  }
  const Json* const tools = fields.Value("tools");
  if (tools != nullptr && !tools->is_array()) return fields.Refuse("tools", "must be a list");
  if (tools != nullptr && !tools->empty()) conversation->tools = tools->dump();
}

// Whether the template is shown the tools; that they must be called cannot be asked for.
void ReadToolChoice(Fields& fields, ConversationFields* conversation) {
  const Json* const choice = fields.Value("tool_choice");
  if (choice == nullptr || *choice == "auto") return;
  if (*choice != "none") return fields.Refuse("tool_choice", "must be auto or none");
  conversation->tools.clear();
}

}  // namespace

Parsed<Json> ParseBody(std::string_view body) {
  const absl::Status valid = CheckJson(body, "the body", kMaxJsonDepth);
  if (!valid.ok()) return ApiError{.message = std::string(valid.message()), .code = "invalid_json"};
  Json json = Json::parse(body);
  if (!json.is_object()) {
    return ApiError{.message = absl::StrCat("the body is ", ShownJson(json), ", must be an object"),
                    .code = "invalid_json"};
  }
  return json;
}

std::string ReadModel(Fields& fields) {
  const std::optional<std::string> model = fields.Text("model");
  if (!model) fields.Refuse("model", "must be the name of the model, as /v1/models has it");
  return model.value_or("");
}

std::string ReadSchema(Fields& fields) {
  // What it is called and what for is for readers; a grammar is always kept strictly.
  static_cast<void>(fields.Text("name"));
  static_cast<void>(fields.Text("description"));
  static_cast<void>(fields.Bool("strict"));
  const Json* const schema = fields.Object("schema");
  if (schema == nullptr) fields.Refuse("schema", "must be an object");
  return schema == nullptr ? "" : schema->dump();
}

Parsed<CompletionsRequest> ParseCompletions(std::string_view body) {
  Parsed<Json> json = ParseBody(body);
  if (auto* const error = std::get_if<ApiError>(&json)) return *error;
  Fields fields(std::get<Json>(json));
  CompletionsRequest request;
  ReadAnswer(fields, &request.answer);
  ReadPrompts(fields, &request.prompts);
  request.echo = fields.Bool("echo").value_or(false);
  ReadBestOf(fields, request.answer.n);
  const std::optional<int64_t> logprobs = fields.Int("logprobs", {0, kMostTopLogprobs});
  request.answer.logprobs = logprobs.has_value();
  request.answer.top_logprobs = static_cast<int>(logprobs.value_or(0));
  ReadResponseFormat(fields, &request.answer.sampling);
  if (fields.Finish()) return *fields.error();
  return request;
}

Parsed<ChatRequest> ParseChat(std::string_view body) {
  Parsed<Json> json = ParseBody(body);
  if (auto* const error = std::get_if<ApiError>(&json)) return *error;
  Fields fields(std::get<Json>(json));
  ChatRequest request;
  AnswerFields& answer = request.answer;
  ReadAnswer(fields, &answer);
  ReadConversation(fields, &request.conversation);
  ReadToolChoice(fields, &request.conversation);
  const std::optional<int64_t> newer = fields.Int("max_completion_tokens", {0, kMostTokens});
  if (newer && answer.max_tokens && *newer != *answer.max_tokens) {
    fields.Refuse("max_completion_tokens",
                  absl::StrCat("must be max_tokens = ", *answer.max_tokens, " where both are set"));
  }
  if (newer) answer.max_tokens = newer;
  answer.logprobs = fields.Bool("logprobs").value_or(false);
  const std::optional<int64_t> top = fields.Int("top_logprobs", {0, kMostTopLogprobs});
  if (top && !answer.logprobs) fields.Refuse("top_logprobs", "needs logprobs = true");
  answer.top_logprobs = static_cast<int>(top.value_or(0));
  ReadResponseFormat(fields, &answer.sampling);
  if (fields.Finish()) return *fields.error();
  return request;
}

Parsed<TokenizeRequest> ParseTokenize(std::string_view body) {
  Parsed<Json> json = ParseBody(body);
  if (auto* const error = std::get_if<ApiError>(&json)) return *error;
  Fields fields(std::get<Json>(json));
  TokenizeRequest request;
  request.model = fields.Text("model").value_or("");
  if (fields.Value("messages") != nullptr) {
    ConversationFields conversation;
    ReadConversation(fields, &conversation);
    request.prompt = std::move(conversation);
  } else {
    const std::optional<std::string> prompt = fields.Text("prompt");
    if (!prompt) fields.Refuse("prompt", "must be a text, or there must be messages");
    request.prompt = prompt.value_or("");
    request.parse_special = fields.Bool("parse_special").value_or(false);
  }
  if (fields.Finish()) return *fields.error();
  return request;
}

}  // namespace ng::serve
