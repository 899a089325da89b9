// AnswerForm: how an answer is written, as a whole or as the events of a stream: one table for all
// APIs.
//
// Thread: the server's.
#ifndef NG_APPS_SERVE_ANSWERS_FORMS_ANSWER_FORM_H_
#define NG_APPS_SERVE_ANSWERS_FORMS_ANSWER_FORM_H_

#include <memory>
#include <span>
#include <string>

#include "apps/serve/answers/forms/openai_choices.h"

namespace ng::serve {

class AnswerForm {
 public:
  virtual ~AnswerForm() = default;

  // The body of an answer that is not streamed.
  virtual std::string Whole(std::span<const Choice> choices, const Usage& usage) = 0;
  // The type of a stream, and its events: its beginning, once, with what is known by then; a piece
  // of a choice; the end, once.
  virtual const char* stream_type() const { return "text/event-stream; charset=utf-8"; }
  virtual std::string Begin(const Usage& usage) = 0;
  virtual std::string Piece(const Choice& choice, bool first) = 0;
  virtual std::string End(const Usage& usage) = 0;
  // In place of what would follow.
  virtual std::string Error(const ApiError& error) = 0;
  // Says that the answer still comes. It changes nothing in what is read; here a comment.
  virtual std::string SignOfLife() { return ": the answer is on its way\n\n"; }
};

// What the request has said of it.
struct FormWishes {
  bool include_usage = false;  // stream_options
  Json said = {};              // of a response: under its names in an answer
};

// How the answers of an API are written.
struct FormRow {
  AnswerKind kind;
  const char* id_prefix;
  std::unique_ptr<AnswerForm> (*make)(AnswerHead head, const FormWishes& wishes);
};
const FormRow& FormOf(AnswerKind kind);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_FORMS_ANSWER_FORM_H_
