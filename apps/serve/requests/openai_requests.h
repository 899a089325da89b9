// JSON bodies of all APIs to requests, by the table of fields (request_fields.h). A field that
// is null is absent.
#ifndef NG_APPS_SERVE_REQUESTS_OPENAI_REQUESTS_H_
#define NG_APPS_SERVE_REQUESTS_OPENAI_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "apps/serve/answers/api_error.h"
#include "apps/serve/requests/tool_choice.h"
#include "ng/recent.h"

namespace ng::serve {

// An option of a sampler's stage, and the field that has set it.
struct StageSetting {
  std::string field;
  std::string_view stage;
  std::string_view option;
  std::string value;            // as the config spells it
  bool off = false;             // the stage does nothing with this value
  bool alone = true;            // it asks for the stage; else it is of one that is there anyway
  std::string_view added = {};  // "option=value": set too where the chain had no such stage
};

// What the answer must match: an option of the stage `grammar`.
struct FormSetting {
  std::string field;
  std::string_view option;  // json_schema, regex or gbnf; empty: any text
  std::string value;
  std::string before = {};  // the thoughts that come before it: items of GBNF; empty: none
};

// The field of a form that holds calls of tools, before which there may be thoughts.
inline constexpr const char* kCallForm = "tools";

// What a request says of sampling; what it leaves out is the config's.
struct SamplingFields {
  std::optional<int64_t> seed;
  std::optional<double> temperature;
  std::vector<StageSetting> stages;
  std::vector<std::pair<int32_t, double>> logit_bias;  // {id, what is added}, each id once
  std::vector<std::string> stop;
  bool ignore_eos = false;  // the ids that end an answer are never drawn
  bool mirostat = false;
  FormSetting form;
};

// What requests for text have in common.
struct AnswerFields {
  std::string model;                  // of /tokenize: empty is any
  std::optional<int64_t> max_tokens;  // empty: run.max_new_tokens
  std::string max_tokens_field;       // which field said so
  std::optional<int64_t> num_ctx;     // what must have been reserved
  int n = 1;
  bool stream = false;
  bool include_usage = false;  // as the last event of a stream
  bool return_token_ids = false;
  bool logprobs = false;
  int top_logprobs = 0;
  SamplingFields sampling;
};

using PromptField = std::variant<std::string, std::vector<int32_t>>;  // a text, or ids

// JSON text, as ng::Conversation has it.
struct ConversationFields {
  std::string messages;             // empty: there is none
  std::string tools;                // empty: none
  Json variables = Json::object();  // of the template
  ToolChoice choice = {};           // which of the tools an answer may call
  bool parallel_calls = true;       // an answer may have several calls of tools
  bool goes_on = false;             // the last message is the beginning of the answer
  // Of a response: what stands before the messages, which its next one does not go on from. Of it
  // and of a message: whose conversation the messages go on from. Empty: none.
  std::string instructions;
  std::string previous;
  std::string thread_tools = {};  // of a thread of messages: all of them, JSON text
};

// What can be asked for, as a set of bits.
enum Api : unsigned {
  kCompletions = 1,
  kChat = 2,
  kResponses = 4,
  kTokenize = 8,
  kMessages = 16,
  kCountTokens = 32,  // of messages
  kOllamaChat = 64,
  kOllamaGenerate = 128,
  kOllamaOptions = 256,  // an object in both
  kOllamaShow = 512,
};

struct Request {
  AnswerFields answer;
  std::vector<PromptField> prompts;  // completions: at least one; /tokenize: one, or a conversation
  ConversationFields conversation;
  bool echo = false;
  bool parse_special = false;
  bool store = false;              // the conversation is kept for a next request
  bool raw = false;                // /api/generate: the prompt as it is, without a template
  bool asks_nothing = false;       // Ollama's: only whether the model is there
  Json said = Json::object();      // responses: what the answer repeats of the request
  std::vector<std::string> inert;  // fields that were there and change nothing
};

template <typename T>
using Parsed = std::variant<T, ApiError>;

// Lists of tools that were read before, by their JSON text in a body.
using KnownTools = Recent<std::string, Json>;

// `known`: null where none are kept. Errors: 400 with the first field that is wrong, or not
// supported.
Parsed<Request> ParseRequest(Api api, std::string_view body, KnownTools* known = nullptr);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_REQUESTS_OPENAI_REQUESTS_H_
