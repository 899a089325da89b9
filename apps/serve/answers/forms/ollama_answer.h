// Answers as Ollama's /api/chat and /api/generate have them: objects, in a stream one a line.
#ifndef NG_APPS_SERVE_ANSWERS_FORMS_OLLAMA_ANSWER_H_
#define NG_APPS_SERVE_ANSWERS_FORMS_OLLAMA_ANSWER_H_

#include <memory>
#include <string>

#include "apps/serve/answers/forms/answer_form.h"

namespace ng::serve {

std::unique_ptr<AnswerForm> MakeOllamaForm(AnswerHead head, const FormWishes& wishes);

// The answer to a request that asks nothing: the model is there.
Json OllamaLoadedJson(AnswerKind kind, const std::string& model);

// "2026-11-28T03:54:35.123456Z".
std::string OllamaTime(int64_t micros_since_1970);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_FORMS_OLLAMA_ANSWER_H_
