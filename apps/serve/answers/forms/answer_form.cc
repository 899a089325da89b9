#include "apps/serve/answers/forms/answer_form.h"

#include <algorithm>
#include <iterator>

#include "apps/serve/answers/forms/anthropic_message.h"
#include "apps/serve/answers/forms/ollama_answer.h"
#include "apps/serve/answers/forms/openai_response.h"

namespace ng::serve {

const FormRow& FormOf(AnswerKind kind) {
  static constexpr FormRow kForms[] = {
      {AnswerKind::kCompletion, "cmpl-", MakeChoicesForm},
      {AnswerKind::kChat, "chatcmpl-", MakeChoicesForm},
      {AnswerKind::kResponse, "resp_", MakeResponseForm},
      {AnswerKind::kMessage, "msg_", MakeMessageForm},
      {AnswerKind::kOllamaChat, "chat-", MakeOllamaForm},
      {AnswerKind::kOllamaGenerate, "text-", MakeOllamaForm},
  };
  return *std::ranges::find(kForms, kind, &FormRow::kind);
}

}  // namespace ng::serve
