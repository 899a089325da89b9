// AnswerForm: how an answer is written: as a whole, or as the events of a stream.
//
// Thread: the server's.
#ifndef NG_APPS_SERVE_ANSWERS_ANSWER_FORM_H_
#define NG_APPS_SERVE_ANSWERS_ANSWER_FORM_H_

#include <memory>
#include <span>
#include <string>

#include "apps/serve/answers/openai_responses.h"

namespace ng::serve {

class AnswerForm {
 public:
  virtual ~AnswerForm() = default;

  // The body of an answer that is not streamed.
  virtual std::string Whole(std::span<const Choice> choices, const Usage& usage) = 0;
  // The events of a stream: its beginning, once; a piece of a choice; the end, once.
  virtual std::string Begin() = 0;
  virtual std::string Piece(const Choice& choice, bool first) = 0;
  virtual std::string End(const Usage& usage) = 0;
  // In place of what would follow.
  virtual std::string Error(const ApiError& error) = 0;
};

// As /v1/completions and /v1/chat/completions have it.
std::unique_ptr<AnswerForm> MakeChoicesForm(AnswerHead head, bool include_usage);

// As /v1/responses has it. `said`: what the request has set, under its names in an answer.
std::unique_ptr<AnswerForm> MakeResponseForm(AnswerHead head, Json said);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_ANSWER_FORM_H_
