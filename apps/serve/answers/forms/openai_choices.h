// Answers with a list of choices, as /v1/completions and /v1/chat/completions have them: whole, or
// as the events of a stream.
#ifndef NG_APPS_SERVE_ANSWERS_FORMS_OPENAI_CHOICES_H_
#define NG_APPS_SERVE_ANSWERS_FORMS_OPENAI_CHOICES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/serve/answers/answer_text.h"
#include "apps/serve/answers/api_error.h"
#include "apps/serve/answers/forms/answer_items.h"
#include "ng/request.h"

namespace ng::serve {

enum class AnswerKind {
  kCompletion,
  kChat,
  kResponse,
  kMessage,
  kOllamaChat,
  kOllamaGenerate,
};

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
  // Seconds: from the request to its end, and of it for the prompt and for the answer.
  double total_s = 0.0;
  double prompt_s = 0.0;
  double completion_s = 0.0;
};

// A choice of an answer, or a piece of it in a stream.
struct Choice {
  int index = 0;
  std::string text = {};
  std::string reasoning = {};
  std::vector<ToolCall> calls = {};
  bool called = false;  // the answer has calls, here or in pieces before
  // Of a whole answer: what it is made of, in order.
  std::vector<AnswerItem> items = {};
  // Null: logprobs were not asked for. Borrowed.
  const std::vector<ShownToken>* tokens = nullptr;
  int64_t text_offset = 0;                       // characters of the choice before this piece
  std::optional<StopReason> stop_reason = {};    // empty: it goes on
  std::string stop_text = {};                    // which of the request's has ended it
  std::optional<std::vector<int32_t>> ids = {};  // return_token_ids
  std::optional<std::vector<int32_t>> prompt_ids = {};
};

// What a piece adds to the items of its answer. A piece has something of one kind.
ItemChange AddPiece(const Choice& piece, std::vector<AnswerItem>* items);

// How many characters the tokens show.
int64_t CountCharacters(std::span<const ShownToken> tokens);

Json AnswerJson(const AnswerHead& head, std::span<const Choice> choices, const Usage& usage);
// An event of a stream. The first one of a chat's choice says who speaks.
Json PieceJson(const AnswerHead& head, const Choice& choice, bool first);
// The event with the usage, which has no choices.
Json UsagePieceJson(const AnswerHead& head, const Usage& usage);

// A server-sent event; with a name where the API names them.
std::string EventOf(const Json& json);
std::string NamedEvent(const std::string& name, const Json& json);

class AnswerForm;
struct FormWishes;
std::unique_ptr<AnswerForm> MakeChoicesForm(AnswerHead head, const FormWishes& wishes);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_FORMS_OPENAI_CHOICES_H_
