// Answers as Anthropic's /v1/messages has them: a message of blocks, whole or as events.
#ifndef NG_APPS_SERVE_ANSWERS_FORMS_ANTHROPIC_MESSAGE_H_
#define NG_APPS_SERVE_ANSWERS_FORMS_ANTHROPIC_MESSAGE_H_

#include <memory>

#include "apps/serve/answers/forms/answer_form.h"

namespace ng::serve {

std::unique_ptr<AnswerForm> MakeMessageForm(AnswerHead head, const FormWishes& wishes);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_FORMS_ANTHROPIC_MESSAGE_H_
