// What reads the fields of requests that are more than a number: each its own field or fields.
#ifndef NG_APPS_SERVE_REQUESTS_FIELD_READERS_H_
#define NG_APPS_SERVE_REQUESTS_FIELD_READERS_H_

#include <cstdint>
#include <string_view>

#include "apps/serve/requests/fields.h"
#include "apps/serve/requests/openai_requests.h"

namespace ng::serve {

inline constexpr double kMostTemperature = 100.0;  // as the stage; OpenAI's is 2

// A number that is an option of a stage.
struct StageNumber {
  const char* stage;
  const char* option;
  Fields::RealRange range;
  bool (*off)(double value) = nullptr;  // whether the stage does nothing with it
  bool whole = false;
  bool alone = true;  // as StageSetting has it
  const char* added = "";
};
void ReadStageNumber(Fields& fields, const char* name, const StageNumber& number,
                     SamplingFields* sampling);
// As llama.cpp counts a window: -1 is all tokens, 0 none.
void ReadWindow(Fields& fields, const char* name, const char* stage, SamplingFields* sampling);
void ReadBreakers(Fields& fields, const char* name, SamplingFields* sampling);
void ReadMirostat(Fields& fields, SamplingFields* sampling);
// The most tokens of thoughts, for the stage `thoughts` and for a template that tells the model of
// them. -1, where `min` allows it: any number.
void ReadThoughtBudget(Fields& fields, const char* name, int64_t min, Request* request);

// The most new tokens. A value below 0 is as much as there is room for, where `min` allows it.
void ReadMaxTokens(Fields& fields, const char* name, int64_t min, AnswerFields* answer);
void ReadModel(Fields& fields, AnswerFields* answer);
void ReadStop(Fields& fields, const char* name, SamplingFields* sampling);
void ReadLogitBias(Fields& fields, SamplingFields* sampling);
void ReadStream(Fields& fields, AnswerFields* answer);
void ReadChatLogprobs(Fields& fields, AnswerFields* answer);
void ReadCompletionLogprobs(Fields& fields, AnswerFields* answer);

// What the answer must match. Of several fields that say so the second is refused.
inline constexpr const char* kAnyObjectSchema = R"({"type":"object"})";
void SetForm(Fields& fields, FormSetting form, SamplingFields* sampling);
// The field "schema", and "name", "description" and "strict" beside it, as JSON text.
std::string ReadSchema(Fields& fields);
void ReadResponseFormat(Fields& fields, SamplingFields* sampling);
// A schema as an object, or as a text that holds one.
void ReadSchemaField(Fields& fields, const char* name, SamplingFields* sampling);
// A text for this option.
void ReadFormText(Fields& fields, const char* name, std::string_view option,
                  SamplingFields* sampling);

void ReadPrompts(Fields& fields, Request* request);
// "messages" and "tools", or for /tokenize "prompt".
void ReadMessages(Fields& fields, ConversationFields* conversation);
void ReadTools(Fields& fields, ConversationFields* conversation);
void ReadTokenizePrompt(Fields& fields, Request* request);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_REQUESTS_FIELD_READERS_H_
