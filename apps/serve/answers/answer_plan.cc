#include "apps/serve/answers/answer_plan.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "apps/common/answer_room.h"
#include "apps/serve/answers/forms/ollama_answer.h"
#include "apps/serve/answers/held/call_form.h"
#include "apps/serve/answers/held/closed_schema.h"
#include "apps/serve/requests/sampler_settings.h"

namespace ng::serve {
namespace {

// `parse_special`: the text may hold special tokens.
Parsed<PlannedPrompt> PlanPrompt(const PromptField& field, bool parse_special,
                                 const PlanParts& parts) {
  const Engine& engine = parts.engine;
  const DiskPaths& paths = parts.settings.paths;
  PlannedPrompt prompt;
  if (const auto* const text = std::get_if<std::string>(&field)) {
    absl::StatusOr<std::vector<int32_t>> ids =
        engine.Encode(*text, {.parse_special = parse_special, .must_fit = true});
    if (!ids.ok()) return ErrorOf(ids.status(), paths, "prompt");
    prompt.ids = *std::move(ids);
    prompt.text = *text;
    return prompt;
  }
  prompt.ids = std::get<std::vector<int32_t>>(field);
  const absl::Status valid = CheckIds(engine.model_shape(), prompt.ids);
  if (!valid.ok()) return ErrorOf(valid, paths, "prompt");
  if (engine.has_tokenizer()) prompt.text = ReplaceInvalidUtf8(*engine.Decode(prompt.ids));
  return prompt;
}

// Which field an error of a conversation is about, by the word that it begins with.
std::string ConversationField(std::string_view message) {
  if (message.starts_with("tool_choice:")) return "tool_choice";
  if (message.starts_with("tools:")) return "tools";
  if (message.starts_with("variables:")) return "chat_template_kwargs";
  return "messages";
}

ApiError ConversationError(const absl::Status& status, const PlanParts& parts) {
  const absl::string_view message = status.message();
  ApiError error =
      ErrorOf(status, parts.settings.paths, ConversationField({message.data(), message.size()}));
  // The template fails on these messages: it is the server's, and still runs on others.
  if (ExitCode(status) == ExitCode(ModelFileError(""))) {
    error.status = kBadRequest;
    error.param = "messages";
  }
  return error;
}

Parsed<std::vector<int32_t>> EncodeConversation(const ConversationFields& conversation,
                                                const PlanParts& parts) {
  absl::StatusOr<std::vector<int32_t>> ids =
      parts.engine.EncodeConversation(ConversationOf(conversation));
  if (ids.ok()) return *std::move(ids);
  return ConversationError(ids.status(), parts);
}

// What reads the answers' parts, unless they are only text.
std::optional<ApiError> AddReaders(const ConversationFields& conversation, const PlanParts& parts,
                                   AnswerPlan* plan) {
  Conversation read = ConversationOf(conversation);
  // Such an answer is JSON from its first token on, whatever the prompt has begun.
  const FormSetting& form = plan->fields.sampling.form;
  if (form.option == "json_schema" && form.before.empty()) read.asks = false;
  for (size_t i = 0; i < plan->n_choices(); ++i) {
    auto reader = parts.engine.ReadAnswer(read);
    if (!reader.ok()) return ConversationError(reader.status(), parts);
    if ((*reader)->is_plain()) return std::nullopt;
    plan->readers.push_back(*std::move(reader));
  }
  return std::nullopt;
}

// An upper bound: beyond the room it is the room. Whether the prompt fits is for the engine to say.
int64_t WithinRoom(int64_t most, const AnswerPlan& plan, const PlanParts& parts) {
  if (parts.engine.config().Text("run.on_full") == "recompute") return most;
  size_t longest = 0;
  for (const PlannedPrompt& prompt : plan.prompts) longest = std::max(longest, prompt.ids.size());
  return std::clamp<int64_t>(parts.max_tokens - static_cast<int64_t>(longest), 0, most);
}

// Up to where the conversation's ids are those without what asks for the answer. A next prompt may
// leave it there, because templates drop what a model thought before it answered.
int64_t FindMark(const ConversationFields& conversation, std::span<const int32_t> ids,
                 const Engine& engine) {
  Conversation so_far = ConversationOf(conversation);
  so_far.asks = false;
  so_far.goes_on = false;
  const auto said = engine.EncodeConversation(so_far);
  if (!said.ok()) return 0;  // the template takes no such conversation
  return std::ranges::mismatch(*said, ids).in2 - ids.begin();
}

// Where the request says nothing of it. A message's answer may be as long as its sequence's share
// of the cache lets it, so that answers that go on beside each other need not wait; or as some
// thousand tokens, where the context has them.
int64_t DefaultTokens(const AnswerPlan& plan, const PlanParts& parts) {
  const int64_t given = parts.engine.default_max_new_tokens();
  const Config& config = parts.engine.config();
  const bool completes = plan.kind == AnswerKind::kCompletion && !NothingLimits(config);
  if (completes || !AnswersAreOpen(config)) return given;
  GenerateRequest request = {.prompt_ids = plan.prompts.front().ids};
  const int64_t prompt_len = std::ssize(request.prompt_ids);
  constexpr int64_t kLeast = 4096;  // also where the prompt alone takes more than a share
  const int64_t share = std::max({parts.settings.shared_tokens - prompt_len, given, kLeast});
  const int64_t room = std::min(share, parts.max_tokens - prompt_len);
  const int64_t most = std::clamp(room, int64_t{1}, MostOfOpenAnswer(parts.engine));
  // What does not fit is refused where all requests are checked.
  FitContext(parts.engine, most, &request).IgnoreError();
  return request.max_new_tokens;
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
  if (plan.fields.num_ctx.value_or(0) > parts.max_tokens) {
    return ApiError{
        .message = absl::StrCat("num_ctx = ", *plan.fields.num_ctx, ", must be at most ",
                                parts.max_tokens, ", which the server has reserved"),
        .param = "num_ctx"};
  }
  FormSetting& form = plan.fields.sampling.form;
  if (form.option == "json_schema") form.value = ClosedSchemaText(form.value);
  SamplerSettings sampler =
      SettingsOf(plan.fields.sampling, parts.engine.config(), parts.engine.stop_ids());
  plan.settings = std::move(sampler.settings);
  plan.setting_fields = std::move(sampler.fields);
  const int64_t asked =
      plan.fields.max_tokens ? *plan.fields.max_tokens : DefaultTokens(plan, parts);
  plan.max_new_tokens = WithinRoom(asked, plan, parts);
  return plan;
}

ApiError NotKept(AnswerKind kind, const std::string& id, const PlanParts& parts) {
  const bool in_thread = kind == AnswerKind::kMessage;
  ApiError error;
  error.param = in_thread ? "thread.previous_message_id" : "previous_response_id";
  error.code = in_thread ? kThreadNotFound : "previous_response_not_found";
  if (in_thread) error.status = kNotFound;
  error.message =
      absl::StrCat(error.param, " = ", id.substr(0, 80),
                   ", must be one of the last serve.responses = ", parts.settings.responses,
                   in_thread ? " of a thread: create it again with all its messages"
                             : " that were asked for with store, or left out: send its messages "
                               "again");
  return error;
}

// Puts what a request goes on from before its messages, and a response's instructions before all.
std::optional<ApiError> AddBefore(const PlanParts& parts, Request* request, AnswerPlan* plan) {
  ConversationFields& conversation = request->conversation;
  if (!conversation.previous.empty()) {
    const std::optional<KeptConversation> before = parts.kept.Find(conversation.previous);
    if (!before) return NotKept(plan->kind, conversation.previous, parts);
    if (plan->kind == AnswerKind::kMessage) {
      Parsed<ConversationFields> whole = InThread(*before, std::move(conversation));
      if (auto* const error = std::get_if<ApiError>(&whole)) return *error;
      conversation = std::get<ConversationFields>(std::move(whole));
    } else {
      conversation.messages = JoinedMessages(before->messages, conversation.messages);
    }
  }
  if (request->store) plan->kept = {conversation.messages, conversation.thread_tools};
  if (!conversation.instructions.empty()) {
    conversation.messages =
        JoinedMessages(absl::StrCat("[", conversation.instructions, "]"), conversation.messages);
  }
  return std::nullopt;
}

// What a plan has of any request.
AnswerPlan PlanOf(AnswerKind kind, Request* request) {
  AnswerPlan plan;
  plan.kind = kind;
  plan.fields = std::move(request->answer);
  plan.echo = request->echo;
  plan.said = std::move(request->said);
  plan.inert = std::move(request->inert);
  return plan;
}

// Of a text to go on with.
Parsed<AnswerPlan> PlannedTexts(AnswerKind kind, Request request, const PlanParts& parts) {
  AnswerPlan plan = PlanOf(kind, &request);
  for (const PromptField& field : request.prompts) {
    Parsed<PlannedPrompt> prompt = PlanPrompt(field, request.raw, parts);
    if (auto* const error = std::get_if<ApiError>(&prompt)) return *error;
    plan.prompts.push_back(std::get<PlannedPrompt>(std::move(prompt)));
  }
  return Planned(std::move(plan), parts);
}

Parsed<AnswerPlan> PlannedChat(AnswerKind kind, Request request, const PlanParts& parts) {
  AnswerPlan plan = PlanOf(kind, &request);
  if (auto error = AddBefore(parts, &request, &plan)) return *error;
  plan.goes_on = request.conversation.goes_on;
  Parsed<std::vector<int32_t>> ids = EncodeConversation(request.conversation, parts);
  if (auto* const error = std::get_if<ApiError>(&ids)) return *error;
  PlannedPrompt& prompt = plan.prompts.emplace_back();
  prompt.ids = std::get<std::vector<int32_t>>(std::move(ids));
  if (parts.engine.wants_context()) {
    const auto context = parts.engine.ContextOf(ConversationOf(request.conversation), prompt.ids);
    if (!context.ok()) return ConversationError(context.status(), parts);
    prompt.context = *context;
  }
  auto not_written = parts.engine.NotWritten(ConversationOf(request.conversation));
  if (!not_written.ok()) return ConversationError(not_written.status(), parts);
  plan.not_written = *std::move(not_written);
  plan.parallel_calls = request.conversation.parallel_calls;
  auto form =
      FormOf(request.conversation, plan.fields.sampling.form, parts.engine, parts.closed_tools);
  if (!form.ok()) return ConversationError(form.status(), parts);
  plan.fields.sampling.form = *std::move(form);
  Parsed<AnswerPlan> planned = Planned(std::move(plan), parts);
  auto* const made = std::get_if<AnswerPlan>(&planned);
  if (made == nullptr) return planned;
  if (auto error = AddReaders(request.conversation, parts, made)) return *error;
  if (parts.settings.marks) {
    PlannedPrompt& asked = made->prompts.front();
    asked.mark = FindMark(request.conversation, asked.ids, parts.engine);
  }
  return planned;
}

}  // namespace

std::optional<ApiError> CheckModel(const std::string& model, const Settings& settings) {
  if (std::ranges::count(settings.models, model) > 0) return std::nullopt;
  return ApiError{.status = kNotFound,
                  .message = absl::StrCat("model = ", model, ", must be ",
                                          absl::StrJoin(settings.models, " or ")),
                  .param = "model",
                  .code = "model_not_found"};
}

ApiError ErrorOfAnswer(const absl::Status& status, const AnswerPlan& plan, const DiskPaths& paths) {
  ApiError error = ErrorOf(status, paths);
  const auto named = std::ranges::find_if(plan.setting_fields, [&](const auto& entry) {
    return absl::StrContains(error.message, entry.first);
  });
  if (named == plan.setting_fields.end()) return error;
  error.status = kBadRequest;
  error.param = named->second;
  error.code.clear();
  // Clients know their own names.
  error.message = absl::StrReplaceAll(error.message, {{named->first, named->second}});
  return error;
}

Parsed<AnswerPlan> PlanAnswer(AnswerKind kind, const std::string& body, const PlanParts& parts) {
  struct Reading {
    AnswerKind kind;
    Api api;
  };
  static constexpr Reading kReadings[] = {
      {AnswerKind::kCompletion, kCompletions}, {AnswerKind::kChat, kChat},
      {AnswerKind::kResponse, kResponses},     {AnswerKind::kMessage, kMessages},
      {AnswerKind::kOllamaChat, kOllamaChat},  {AnswerKind::kOllamaGenerate, kOllamaGenerate}};
  Parsed<Request> parsed = ParseRequest(std::ranges::find(kReadings, kind, &Reading::kind)->api,
                                        body, &parts.known_tools);
  if (auto* const error = std::get_if<ApiError>(&parsed)) return *error;
  auto request = std::get<Request>(std::move(parsed));
  if (request.asks_nothing) {
    if (auto error = CheckModel(request.answer.model, parts.settings)) return *error;
    AnswerPlan plan = PlanOf(kind, &request);
    plan.at_once = OllamaLoadedJson(kind, plan.fields.model);
    return plan;
  }
  // Where there is no template a prompt is all there is.
  const bool generates =
      kind == AnswerKind::kOllamaGenerate && (request.raw || !parts.engine.has_chat_template());
  if (kind == AnswerKind::kCompletion || generates) {
    return PlannedTexts(kind, std::move(request), parts);
  }
  return PlannedChat(kind, std::move(request), parts);
}

Parsed<Json> CountTokens(const std::string& body, const PlanParts& parts) {
  Parsed<Request> parsed = ParseRequest(kCountTokens, body, &parts.known_tools);
  if (auto* const error = std::get_if<ApiError>(&parsed)) return *error;
  const auto& request = std::get<Request>(parsed);
  if (auto error = CheckModel(request.answer.model, parts.settings)) return *error;
  const Parsed<std::vector<int32_t>> ids = EncodeConversation(request.conversation, parts);
  if (const auto* const error = std::get_if<ApiError>(&ids)) return *error;
  Json json = Json::object();
  json["input_tokens"] = std::get<std::vector<int32_t>>(ids).size();
  return json;
}

Parsed<Json> Tokenize(const std::string& body, const PlanParts& parts) {
  Parsed<Request> parsed = ParseRequest(kTokenize, body, &parts.known_tools);
  if (auto* const error = std::get_if<ApiError>(&parsed)) return *error;
  const auto& request = std::get<Request>(parsed);
  if (!request.answer.model.empty()) {
    if (auto error = CheckModel(request.answer.model, parts.settings)) return *error;
  }
  Parsed<std::vector<int32_t>> ids = std::vector<int32_t>();
  if (request.conversation.messages.empty()) {
    const auto& text = std::get<std::string>(request.prompts.front());
    auto encoded = parts.engine.Encode(text, {.parse_special = request.parse_special});
    if (!encoded.ok()) return ErrorOf(encoded.status(), parts.settings.paths, "prompt");
    ids = *std::move(encoded);
  } else {
    ids = EncodeConversation(request.conversation, parts);
  }
  if (auto* const error = std::get_if<ApiError>(&ids)) return *error;
  const auto& tokens = std::get<std::vector<int32_t>>(ids);
  Json json = Json::object();
  json["count"] = tokens.size();
  json["max_model_len"] = parts.max_tokens;
  json["tokens"] = tokens;
  return json;
}

}  // namespace ng::serve
