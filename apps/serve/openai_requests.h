// JSON bodies of OpenAI's API to requests. A field that is not supported is refused by its name,
// and so is a value that is not; nothing is left out in silence. A field that is null is absent.
#ifndef NG_APPS_SERVE_OPENAI_REQUESTS_H_
#define NG_APPS_SERVE_OPENAI_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "apps/serve/api_error.h"

namespace ng::serve {

// What a request says of sampling; what it leaves out is the config's.
struct SamplingFields {
  std::optional<int64_t> seed;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> frequency_penalty;
  std::optional<double> presence_penalty;
  std::vector<std::pair<int64_t, double>> logit_bias;  // {id, what is added}
  std::vector<std::string> stop;
  std::string json_schema;  // of the answer; empty: any text
};

// What requests for text have in common.
struct AnswerFields {
  std::string model;
  std::optional<int64_t> max_tokens;  // empty: run.max_new_tokens
  int n = 1;
  bool stream = false;
  bool include_usage = false;  // as the last event of a stream
  bool return_token_ids = false;
  bool logprobs = false;
  int top_logprobs = 0;
  SamplingFields sampling;
};

using PromptField = std::variant<std::string, std::vector<int32_t>>;  // a text, or ids

struct CompletionsRequest {
  AnswerFields answer;
  std::vector<PromptField> prompts;  // at least one
  bool echo = false;
};

// JSON text, as ng::Conversation has it.
struct ConversationFields {
  std::string messages;
  std::string tools;  // empty: none
};

struct ChatRequest {
  AnswerFields answer;
  ConversationFields conversation;
};

struct TokenizeRequest {
  std::string model;  // empty: any
  std::variant<std::string, ConversationFields> prompt;
  bool parse_special = false;
};

template <typename T>
using Parsed = std::variant<T, ApiError>;

// What the parsers of all requests share. A body is an object of JSON; a schema is that of the
// fields "schema", "name", "description" and "strict", as JSON text.
class Fields;
inline constexpr double kMostTemperature = 100.0;  // as the stage; OpenAI's is 2
inline constexpr const char* kAnyObjectSchema = R"({"type":"object"})";
Parsed<Json> ParseBody(std::string_view body);
std::string ReadModel(Fields& fields);
std::string ReadSchema(Fields& fields);

Parsed<CompletionsRequest> ParseCompletions(std::string_view body);
Parsed<ChatRequest> ParseChat(std::string_view body);
Parsed<TokenizeRequest> ParseTokenize(std::string_view body);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_OPENAI_REQUESTS_H_
