// What a request for text comes to: prompts in ids, settings of the sampler, and what is shown.
#ifndef NG_APPS_SERVE_ANSWERS_ANSWER_PLAN_H_
#define NG_APPS_SERVE_ANSWERS_ANSWER_PLAN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/serve/answers/forms/openai_choices.h"
#include "apps/serve/answers/held/call_form.h"
#include "apps/serve/answers/kept_responses.h"
#include "apps/serve/requests/openai_requests.h"
#include "apps/serve/settings.h"
#include "ng/engine.h"

namespace ng::serve {

struct PlannedPrompt {
  std::vector<int32_t> ids;
  std::string text = {};  // as it was given; of ids: theirs
  int64_t mark = 0;       // SessionRequest::mark
  int64_t context = 0;    // GenerateRequest::context_tokens
};

// Choice i answers prompt i / n with the draws of number i, as ng-run --prompts would answer each
// prompt n times.
// NOLINTNEXTLINE(bugprone-exception-escape): of the JSON library, whose moves do not throw
struct AnswerPlan {
  AnswerKind kind = AnswerKind::kCompletion;
  AnswerFields fields;
  std::vector<PlannedPrompt> prompts;
  bool echo = false;
  std::vector<std::string> settings;                  // "sampler.key=value"
  std::map<std::string, std::string> setting_fields;  // key -> the field that has set it
  int64_t max_new_tokens = 0;
  // Of a chat, one for each choice; none where an answer is nothing but text.
  std::vector<std::unique_ptr<AnswerReader>> readers;
  bool parallel_calls = true;
  Json said;  // of a response: what it repeats of the request
  // The conversation so far, if it is kept for a next one; and whether the answer goes on with its
  // last message.
  KeptConversation kept = {};
  bool goes_on = false;
  Json at_once;                    // the answer, where nothing is asked of the model; else null
  std::vector<std::string> inert;  // fields that change nothing
  std::string not_written;         // of the calls before, as Engine::NotWritten

  size_t n_choices() const { return prompts.size() * static_cast<size_t>(fields.n); }
};

// What plans look at. Borrowed.
struct PlanParts {
  const Engine& engine;
  const Settings& settings;
  int64_t max_tokens = 0;  // of a prompt and its answer
  const KeptResponses& kept;
  KnownTools& known_tools;
  ClosedTools& closed_tools;
};

// From the body of a request. Errors: 400 for what is wrong with it, 404 for another model.
Parsed<AnswerPlan> PlanAnswer(AnswerKind kind, const std::string& body, const PlanParts& parts);

// The ids of a text or a conversation: {"count", "max_model_len", "tokens"}.
Parsed<Json> Tokenize(const std::string& body, const PlanParts& parts);
// How many there are of messages with blocks: {"input_tokens"}.
Parsed<Json> CountTokens(const std::string& body, const PlanParts& parts);

// What an error of the engine is to the client of this plan: 400 with the field, where it is about
// a setting of the request's own; otherwise as ErrorOf has it.
ApiError ErrorOfAnswer(const absl::Status& status, const AnswerPlan& plan, const DiskPaths& paths);

// Refuses a model that is not the server's.
std::optional<ApiError> CheckModel(const std::string& model, const Settings& settings);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_ANSWER_PLAN_H_
