#include "apps/serve/answers/answer.h"

#include <algorithm>
#include <ctime>

#include "absl/strings/str_cat.h"

namespace ng::serve {
namespace {

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A call's id: the model's own, where it is more than a number; else one that all templates take,
// some of which want nine letters and digits.
std::string CallId(std::string_view answer, size_t choice, const AnswerDelta& call) {
  constexpr size_t kDigits = 9;
  constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789";
  if (call.id.size() >= kDigits) return call.id;
  // FNV-1a
  uint64_t hash = 0xCBF29CE484222325;
  const std::string place =
      absl::StrCat(absl::string_view(answer.data(), answer.size()), "/", choice, "/", call.call);
  for (const char c : place) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  std::string id;
  for (size_t i = 0; i < kDigits; ++i) {
    id += kAlphabet[hash % kAlphabet.size()];
    hash /= kAlphabet.size();
  }
  return id;
}

// Which of the texts that end an answer is at the beginning of what is left out of it; empty: none.
std::string EndingText(std::string_view left_out, std::span<const std::string> texts) {
  std::string found;
  for (const std::string& text : texts) {
    if (left_out.starts_with(text) && (found.empty() || text.size() < found.size())) found = text;
  }
  return found;
}

}  // namespace

Answer::Answer(const AnswerHost& host, AskedOnce asked, AnswerPlan plan)
    : host_(host), asked_(std::move(asked)), plan_(std::move(plan)) {
  const FormRow& form = FormOf(plan_.kind);
  name_ = absl::StrCat(form.id_prefix, asked_.id);
  AnswerHead head = {.kind = plan_.kind,
                     .id = name_,
                     .created = static_cast<int64_t>(std::time(nullptr)),
                     .model = plan_.fields.model};
  form_ = form.make(std::move(head),
                    {.include_usage = plan_.fields.include_usage, .said = std::move(plan_.said)});
  for (size_t i = 0; i < plan_.n_choices(); ++i) {
    choices_.emplace_back(plan_.fields.logprobs);
    if (!plan_.readers.empty()) choices_[i].parts.emplace(std::move(plan_.readers[i]));
  }
}

const PlannedPrompt& Answer::PromptOf(size_t index) const {
  return plan_.prompts[index / static_cast<size_t>(plan_.fields.n)];
}

GenerateRequest Answer::RequestOf(size_t index) const {
  GenerateRequest request;
  request.prompt_ids = PromptOf(index).ids;
  request.context_tokens = PromptOf(index).context;
  request.max_new_tokens = plan_.max_new_tokens;
  request.settings = plan_.settings;
  request.adapter = AdapterIn(plan_.fields.model, host_.settings);
  request.draw = static_cast<int64_t>(index);
  if (plan_.fields.logprobs) request.top_logprobs = plan_.fields.top_logprobs;
  if (plan_.fields.logprobs && plan_.echo) {
    request.prompt_top_logprobs = plan_.fields.top_logprobs;
  }
  request.steps = host_.views.kept();
  return request;
}

std::vector<SessionRequest> Answer::Requests() {
  std::vector<SessionRequest> requests(plan_.n_choices());
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].request = RequestOf(i);
    requests[i].mark = PromptOf(i).mark;
    const auto self = shared_from_this();
    // To the server's thread, with a copy of what is needed.
    requests[i].on_prompt = [self, i](const Completion& so_far) {
      self->host_.server.Post(
          [self, i, event = PromptEvent{so_far.prompt_logprobs, so_far.timings.shared_tokens}] {
            self->OnPrompt(i, event);
          });
    };
    requests[i].on_token = [self, i](const StepRecord& record) {
      TokenEvent event{{record.token_id, record.logprob, record.top_logprobs}, record.held_bytes};
      if (self->host_.views.kept()) event.step = record;
      self->host_.server.Post(
          [self, i, event = std::move(event)]() mutable { self->OnToken(i, event); });
    };
    requests[i].on_done = [self, i](const absl::Status& status, const Completion& done) {
      self->host_.server.Post(
          [self, i,
           event = DoneEvent{status, done.stop_reason, done.held_bytes,
                             PromptEvent{done.prompt_logprobs, done.timings.shared_tokens},
                             done.timings}] { self->OnDone(i, event); });
    };
  }
  return requests;
}

void Answer::Begin(int64_t first_id) {
  first_id_ = first_id;
  asked_.exchange->OnGone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->OnGone();
  });
  if (over_) return CancelAll();
  if (Streams()) AwaitTick();
}

void Answer::AwaitTimeout() {
  if (timer_ != nullptr || host_.settings.answer.count() == 0) return;
  timer_ = host_.server.After(host_.settings.answer, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->OnTimeout();
  });
}

void Answer::AwaitTick() {
  if (host_.settings.alive.count() == 0) return;
  tick_ = host_.server.After(host_.settings.alive, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->OnTick();
  });
}

void Answer::OnTick() {
  if (over_) return;
  if (!std::exchange(wrote_, false)) {
    BeginStream();
    Write(form_->SignOfLife());
    wrote_ = false;
  }
  AwaitTick();
}

void Answer::Rest() {
  timer_.reset();
  tick_.reset();
}

void Answer::Write(std::string bytes) {
  wrote_ = true;
  asked_.exchange->Write(std::move(bytes));
}

void Answer::CancelAll() {
  if (!first_id_) return;  // Begin does it
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (!choices_[i].reason) host_.session.Cancel(*first_id_ + static_cast<int64_t>(i));
  }
}

void Answer::KeepViews() {
  for (size_t i = 0; host_.views.kept() && i < choices_.size(); ++i) {
    host_.views.Keep(absl::StrCat(name_, "/", i),
                     {.request = RequestOf(i),
                      .steps = std::move(choices_[i].steps),
                      .reason = choices_[i].reason.value_or(StopReason::kInterrupted)});
  }
}

void Answer::Count() const {
  const Usage usage = UsageOfAll();
  asked_.exchange->Count(usage.prompt_tokens, usage.completion_tokens);
}

void Answer::OnGone() {
  Count();
  if (!std::exchange(over_, true)) KeepViews();
  Rest();
  CancelAll();
}

void Answer::OnTimeout() {
  Fail({.status = kUnavailable,
        .message = absl::StrCat("the answer took more than serve.answer_seconds = ",
                                host_.settings.answer.count()),
        .code = "timeout"});
}

void Answer::Fail(const ApiError& error) {
  if (std::exchange(over_, true)) return;
  Rest();
  CancelAll();
  Count();
  if (!streaming_) {
    const ErrorStyle style = ErrorStyleOf(asked_.exchange->request().path);
    return asked_.exchange->Reply(ErrorReply(error, style));
  }
  Write(form_->Error(error));
  asked_.exchange->EndStream();
}

ShownToken Answer::Shown(int32_t id) const {
  ShownToken token;
  token.bytes = host_.engine.Decode({&id, 1}).value_or("");
  const std::span<const uint8_t> special = host_.engine.special_tokens();
  token.special = !special.empty() && special[static_cast<size_t>(id)] != 0;
  return token;
}

ShownToken Answer::ShownWith(const TokenLogprob& token) const {
  ShownToken shown = Shown(token.token_id);
  shown.logprob = token.logprob;
  for (const auto& [id, logprob] : token.top) {
    shown.top.push_back({host_.engine.Decode({&id, 1}).value_or(""), logprob});
  }
  return shown;
}

void Answer::Echo(size_t index, const PromptEvent& event) {
  ChoiceState& choice = choices_[index];
  choice.cached_tokens = event.shared_tokens;
  if (!plan_.echo || std::exchange(choice.echoed, true)) return;
  const PlannedPrompt& prompt = PromptOf(index);
  AnswerPiece piece{.text = prompt.text};
  if (plan_.fields.logprobs) {
    piece.tokens.push_back(Shown(prompt.ids.front()));
    for (const TokenLogprob& token : event.logprobs) piece.tokens.push_back(ShownWith(token));
  }
  Emit(index, std::move(piece));
}

void Answer::OnPrompt(size_t index, const PromptEvent& event) {
  if (over_) return;
  AwaitTimeout();
  Echo(index, event);
}

void Answer::OnToken(size_t index, TokenEvent& event) {
  if (over_) return;
  ChoiceState& choice = choices_[index];
  if (event.step) choice.steps.push_back(*std::move(event.step));
  const bool first = std::ranges::all_of(choices_, [](const auto& one) { return !one.n_tokens; });
  if (first) host_.metrics.first_token.Add(SecondsSince(asked_.at));
  ++choice.n_tokens;
  const int32_t id = event.token.token_id;
  choice.ids.push_back(id);
  ShownToken token = plan_.fields.logprobs ? ShownWith(event.token) : Shown(id);
  // Special tokens within an answer are part of its text, a stop id is not.
  token.special = IsStopId(host_.engine, id);
  if (!token.special) choice.held += token.bytes;
  const auto n_held = static_cast<size_t>(event.held_bytes);
  if (choice.held.size() > n_held) choice.held.erase(0, choice.held.size() - n_held);
  if (choice.parts && !token.special) choice.parts->Push(id, token.bytes, event.held_bytes);
  choice.text.Push(std::move(token), event.held_bytes);
  Emit(index, choice.text.Take());
}

void Answer::OnDone(size_t index, const DoneEvent& event) {
  ChoiceState& choice = choices_[index];
  choice.reason = event.reason;
  if (over_) return;
  if (!event.status.ok()) return Fail(ErrorOfAnswer(event.status, plan_, host_.settings.paths));
  if (event.reason == StopReason::kInterrupted) return Fail(ServerEnds());
  Echo(index, event.prompt);
  timings_ = event.timings;
  if (event.reason == StopReason::kStopText) {
    const auto n_held = std::min(choice.held.size(), static_cast<size_t>(event.held_bytes));
    choice.whole.stop_text =
        EndingText(std::string_view(choice.held).substr(choice.held.size() - n_held),
                   plan_.fields.sampling.stop);
  }
  if (choice.parts) choice.parts->Finish(event.held_bytes);
  choice.text.Finish(event.held_bytes);
  Emit(index, choice.text.Take());
  if (Streams()) {
    Send(index, {.called = choice.called,
                 .stop_reason = choice.reason,
                 .stop_text = choice.whole.stop_text});
  }
  if (++n_done_ == choices_.size()) Finish();
}

void Answer::Emit(size_t index, AnswerPiece piece) {
  ChoiceState& choice = choices_[index];
  if (choice.parts) return EmitParts(index, std::move(piece));
  if (piece.text.empty() && piece.tokens.empty()) return;
  Give(index, {.text = std::move(piece.text)}, std::move(piece.tokens));
}

void Answer::Give(size_t index, Choice part, std::vector<ShownToken> tokens) {
  ChoiceState& choice = choices_[index];
  choice.whole.text += part.text;
  choice.whole.reasoning += part.reasoning;
  for (const ToolCall& call : part.calls) {
    choice.called = true;
    if (!call.id.empty()) {
      choice.whole.calls.push_back(call);
    } else {
      choice.whole.calls.back().arguments += call.arguments;
    }
  }
  AddPiece(part, &choice.whole.items);
  if (!Streams()) {
    std::ranges::move(tokens, std::back_inserter(choice.tokens));
    return;
  }
  if (plan_.fields.logprobs) part.tokens = &tokens;
  Send(index, std::move(part));
}

Choice Answer::PartOf(size_t index, AnswerDelta delta) const {
  Choice part;
  ToolCall call = {.index = delta.call};
  switch (delta.kind) {
    case AnswerDelta::Kind::kContent:
      part.text = std::move(delta.text);
      return part;
    case AnswerDelta::Kind::kReasoning:
      part.reasoning = std::move(delta.text);
      return part;
    case AnswerDelta::Kind::kCall:
      call.id = CallId(name_, index, delta);
      call.name = std::move(delta.text);
      break;
    case AnswerDelta::Kind::kArguments:
      call.arguments = std::move(delta.text);
      break;
  }
  part.calls.push_back(std::move(call));
  return part;
}

void Answer::EmitParts(size_t index, AnswerPiece piece) {
  ChoiceState& choice = choices_[index];
  std::vector<AnswerDelta> deltas = choice.parts->Take();
  // One call at most was asked for: others are not shown.
  if (!plan_.parallel_calls) {
    std::erase_if(deltas, [](const AnswerDelta& delta) { return delta.call > 0; });
  }
  if (deltas.empty() && !piece.tokens.empty()) deltas.emplace_back();
  for (AnswerDelta& delta : deltas) {
    Give(index, PartOf(index, std::move(delta)), std::exchange(piece.tokens, {}));
  }
  if (!Streams()) std::ranges::move(piece.tokens, std::back_inserter(choice.tokens));
}

void Answer::BeginStream() {
  if (std::exchange(streaming_, true)) return;
  asked_.exchange->BeginStream(form_->stream_type());
  Write(form_->Begin(UsageOfAll()));
}

void Answer::Send(size_t index, Choice piece) {
  BeginStream();
  ChoiceState& choice = choices_[index];
  piece.index = static_cast<int>(index);
  piece.text_offset = choice.n_characters;
  if (piece.tokens != nullptr) choice.n_characters += CountCharacters(*piece.tokens);
  const bool first = !std::exchange(choice.begun, true);
  if (plan_.fields.return_token_ids) {
    piece.ids = std::exchange(choice.ids, {});
    if (first) piece.prompt_ids = PromptOf(index).ids;
  }
  Write(form_->Piece(piece, first));
}

Usage Answer::UsageOfAll() const {
  Usage usage = {.total_s = SecondsSince(asked_.at),
                 .prompt_s = timings_.prefill_s,
                 .completion_s = timings_.decode_s};
  for (size_t i = 0; i < choices_.size(); ++i) {
    usage.completion_tokens += choices_[i].n_tokens;
    if (i % static_cast<size_t>(plan_.fields.n) != 0) continue;  // a prompt counts once
    usage.prompt_tokens += std::ssize(PromptOf(i).ids);
    usage.cached_tokens += choices_[i].cached_tokens;
  }
  return usage;
}

void Answer::Finish() {
  host_.metrics.answer.Add(SecondsSince(asked_.at));
  Rest();
  over_ = true;
  KeepViews();
  Count();
  if (!plan_.kept.messages.empty()) {
    host_.kept.Keep(name_, {WithAnswer(plan_.kept.messages, choices_[0].whole, plan_.goes_on),
                            plan_.kept.tools});
  }
  if (Streams()) {
    Write(form_->End(UsageOfAll()));
    return asked_.exchange->EndStream();
  }
  std::vector<Choice> choices;
  for (size_t i = 0; i < choices_.size(); ++i) {
    ChoiceState& state = choices_[i];
    Choice& choice = choices.emplace_back(std::move(state.whole));
    choice.index = static_cast<int>(i);
    choice.called = state.called;
    if (plan_.fields.logprobs) choice.tokens = &state.tokens;
    choice.stop_reason = state.reason;
    if (!plan_.fields.return_token_ids) continue;
    choice.ids = std::move(state.ids);
    choice.prompt_ids = PromptOf(i).ids;
  }
  asked_.exchange->Reply({.body = form_->Whole(choices, UsageOfAll())});
}

}  // namespace ng::serve
