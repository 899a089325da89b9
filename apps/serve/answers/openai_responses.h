// Answers as OpenAI's API has them: whole, or as the events of a stream.
#ifndef NG_APPS_SERVE_ANSWERS_OPENAI_RESPONSES_H_
#define NG_APPS_SERVE_ANSWERS_OPENAI_RESPONSES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/serve/answers/answer_text.h"
#include "apps/serve/answers/api_error.h"
#include "ng/request.h"

namespace ng::serve {

enum class AnswerKind { kCompletion, kChat, kResponse };

// What all objects of an answer begin with.
struct AnswerHead {
  AnswerKind kind = AnswerKind::kCompletion;
  std::string id;
  int64_t created = 0;  // seconds of the Unix time
  std::string model;
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompts: they were in the cache already
  int64_t completion_tokens = 0;
};

// A call of a tool, or a piece of it in a stream: then only the first has id and name.
struct ToolCall {
  int index = 0;
  std::string id = {};
  std::string name = {};
  std::string arguments = {};
};

// A choice of an answer, or a piece of it in a stream.
struct Choice {
  int index = 0;
  std::string text = {};
  std::string reasoning = {};
  std::vector<ToolCall> calls = {};
  bool called = false;  // the answer has calls, here or in pieces before
  // Null: logprobs were not asked for. Borrowed.
  const std::vector<ShownToken>* tokens = nullptr;
  int64_t text_offset = 0;                       // characters of the choice before this piece
  std::optional<StopReason> stop_reason = {};    // empty: it goes on
  std::optional<std::vector<int32_t>> ids = {};  // return_token_ids
  std::optional<std::vector<int32_t>> prompt_ids = {};
};

// How many characters the tokens show.
int64_t CountCharacters(std::span<const ShownToken> tokens);

Json AnswerJson(const AnswerHead& head, std::span<const Choice> choices, const Usage& usage);
// An event of a stream. The first one of a chat's choice says who speaks.
Json PieceJson(const AnswerHead& head, const Choice& choice, bool first);
// The event with the usage, which has no choices.
Json UsagePieceJson(const AnswerHead& head, const Usage& usage);

// Server-sent events: one, and what ends them.
std::string EventOf(const Json& json);
inline constexpr const char* kLastEvent = "data: [DONE]\n\n";

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_OPENAI_RESPONSES_H_
