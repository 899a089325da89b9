// Answers as /v1/responses has them: a list of items, whole or as typed events.
#ifndef NG_APPS_SERVE_ANSWERS_FORMS_OPENAI_RESPONSE_H_
#define NG_APPS_SERVE_ANSWERS_FORMS_OPENAI_RESPONSE_H_

#include <memory>

#include "apps/serve/answers/forms/answer_form.h"

namespace ng::serve {

// `wishes.said`: what the answer repeats of the request, under its names there.
std::unique_ptr<AnswerForm> MakeResponseForm(AnswerHead head, const FormWishes& wishes);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_FORMS_OPENAI_RESPONSE_H_
