#include "apps/serve/answer_plan.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "apps/serve/responses_request.h"
#include "apps/serve/sampler_settings.h"

namespace ng::serve {
namespace {

Parsed<PlannedPrompt> PlanPrompt(const PromptField& field, const Engine& engine) {
  PlannedPrompt prompt;
  if (const auto* const text = std::get_if<std::string>(&field)) {
    absl::StatusOr<std::vector<int32_t>> ids = engine.Encode(*text, {.must_fit = true});
    if (!ids.ok()) return ErrorOf(ids.status(), "prompt");
    prompt.ids = *std::move(ids);
    prompt.text = *text;
    return prompt;
  }
  prompt.ids = std::get<std::vector<int32_t>>(field);
  const absl::Status valid = CheckIds(engine.model_shape(), prompt.ids);
  if (!valid.ok()) return ErrorOf(valid, "prompt");
  if (engine.has_tokenizer()) prompt.text = ReplaceInvalidUtf8(*engine.Decode(prompt.ids));
  return prompt;
}

Parsed<std::vector<int32_t>> EncodeConversation(const ConversationFields& conversation,
                                                const Engine& engine) {
  absl::StatusOr<std::vector<int32_t>> ids =
      engine.EncodeConversation({.messages = conversation.messages, .tools = conversation.tools});
  if (!ids.ok()) return ErrorOf(ids.status(), "messages");
  return *std::move(ids);
}

// Up to where the conversation's ids are those without what asks for the answer. A next prompt may
// leave it there, because templates drop what a model thought before it answered.
int64_t FindMark(const ConversationFields& conversation, std::span<const int32_t> ids,
                 const Engine& engine) {
  const auto said = engine.EncodeConversation(
      {.messages = conversation.messages, .tools = conversation.tools, .asks = false});
  if (!said.ok()) return 0;  // the template takes no such conversation
  return std::ranges::mismatch(*said, ids).in2 - ids.begin();
}

// What both kinds have in common, once the prompts are there.
Parsed<AnswerPlan> Planned(AnswerPlan plan, const PlanParts& parts) {
  if (auto error = CheckModel(plan.fields.model, parts.settings)) return *error;
  const auto most = static_cast<size_t>(parts.settings.max_queued);
  if (plan.n_choices() > most) {
    return ApiError{.message = absl::StrCat("prompts * n = ", plan.n_choices(),
                                            ", must be at most serve.max_queued = ", most),
                    .param = "n"};
  }
  Parsed<std::vector<std::string>> settings =
      SamplerSettings(plan.fields.sampling, parts.engine.config());
  if (auto* const error = std::get_if<ApiError>(&settings)) return *error;
  plan.settings = std::get<std::vector<std::string>>(std::move(settings));
  plan.max_new_tokens = plan.fields.max_tokens.value_or(parts.engine.default_max_new_tokens());
  return plan;
}

Parsed<AnswerPlan> PlannedChat(AnswerPlan plan, ChatRequest request, const PlanParts& parts) {
  plan.fields = std::move(request.answer);
  Parsed<std::vector<int32_t>> ids = EncodeConversation(request.conversation, parts.engine);
  if (auto* const error = std::get_if<ApiError>(&ids)) return *error;
  PlannedPrompt& prompt = plan.prompts.emplace_back();
  prompt.ids = std::get<std::vector<int32_t>>(std::move(ids));
  if (parts.settings.marks) {
    prompt.mark = FindMark(request.conversation, prompt.ids, parts.engine);
  }
  return Planned(std::move(plan), parts);
}

}  // namespace

std::optional<ApiError> CheckModel(const std::string& model, const Settings& settings) {
  if (model == settings.model) return std::nullopt;
  return ApiError{.status = kNotFound,
                  .message = absl::StrCat("model = ", model, ", must be ", settings.model),
                  .param = "model",
                  .code = "model_not_found"};
}

Parsed<AnswerPlan> PlanCompletions(const std::string& body, const PlanParts& parts) {
  Parsed<CompletionsRequest> parsed = ParseCompletions(body);
  if (auto* const error = std::get_if<ApiError>(&parsed)) return *error;
  auto request = std::get<CompletionsRequest>(std::move(parsed));
  AnswerPlan plan;
  plan.fields = std::move(request.answer);
  plan.echo = request.echo;
  for (const PromptField& field : request.prompts) {
    Parsed<PlannedPrompt> prompt = PlanPrompt(field, parts.engine);
    if (auto* const error = std::get_if<ApiError>(&prompt)) return *error;
    plan.prompts.push_back(std::get<PlannedPrompt>(std::move(prompt)));
  }
  return Planned(std::move(plan), parts);
}

Parsed<AnswerPlan> PlanChat(const std::string& body, const PlanParts& parts) {
  Parsed<ChatRequest> parsed = ParseChat(body);
  if (auto* const error = std::get_if<ApiError>(&parsed)) return *error;
  AnswerPlan plan;
  plan.kind = AnswerKind::kChat;
  return PlannedChat(std::move(plan), std::get<ChatRequest>(std::move(parsed)), parts);
}

Parsed<AnswerPlan> PlanResponse(const std::string& body, const PlanParts& parts) {
  Parsed<ResponsesRequest> parsed = ParseResponses(body);
  if (auto* const error = std::get_if<ApiError>(&parsed)) return *error;
  auto request = std::get<ResponsesRequest>(std::move(parsed));
  AnswerPlan plan;
  plan.kind = AnswerKind::kResponse;
  plan.said = std::move(request.said);
  return PlannedChat(std::move(plan), std::move(request.chat), parts);
}

Parsed<Json> Tokenize(const std::string& body, const PlanParts& parts, int64_t max_tokens) {
  Parsed<TokenizeRequest> parsed = ParseTokenize(body);
  if (auto* const error = std::get_if<ApiError>(&parsed)) return *error;
  const auto& request = std::get<TokenizeRequest>(parsed);
  if (!request.model.empty()) {
    if (auto error = CheckModel(request.model, parts.settings)) return *error;
  }
  Parsed<std::vector<int32_t>> ids = std::vector<int32_t>();
  if (const auto* const text = std::get_if<std::string>(&request.prompt)) {
    auto encoded = parts.engine.Encode(*text, {.parse_special = request.parse_special});
    if (!encoded.ok()) return ErrorOf(encoded.status(), "prompt");
    ids = *std::move(encoded);
  } else {
    ids = EncodeConversation(std::get<ConversationFields>(request.prompt), parts.engine);
  }
  if (auto* const error = std::get_if<ApiError>(&ids)) return *error;
  const auto& tokens = std::get<std::vector<int32_t>>(ids);
  Json json = Json::object();
  json["count"] = tokens.size();
  json["max_model_len"] = max_tokens;
  json["tokens"] = tokens;
  return json;
}

}  // namespace ng::serve
