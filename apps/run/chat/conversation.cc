#include "apps/run/chat/conversation.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "apps/common/answer_room.h"
#include "apps/common/token_text.h"
#include "apps/run/outputs.h"
#include "ng/config.h"
#include "ng/utf8.h"

namespace ng::run {
namespace {

using Json = nlohmann::ordered_json;

Said MessageOf(std::string_view role, const std::string& content) {
  Said said;
  said.message = Json::object();
  said.message["role"] = role;
  said.message["content"] = content;
  return said;
}

std::string MessagesText(std::span<const Said> said) {
  Json messages = Json::array();
  for (const Said& one : said) messages.push_back(one.message);
  return messages.dump();
}

int64_t CommonLength(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

// Where what is left of a conversation may begin, behind its system text: at the first message and
// at each later question. The last question stays in any case.
std::vector<size_t> Beginnings(std::span<const Said> said) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < said.size(); ++i) {
    const bool is_system = HasRole(said[i], "system") || HasRole(said[i], "developer");
    if (begins.empty() ? !is_system : HasRole(said[i], "user")) begins.push_back(i);
  }
  if (begins.empty()) begins.push_back(said.size());
  return begins;
}

// The system text, and what was said from the place `begin` on.
std::vector<Said> Left(std::span<const Said> said, std::span<const size_t> begins, size_t begin) {
  std::vector<Said> left(said.begin(), said.begin() + static_cast<ptrdiff_t>(begins.front()));
  const std::span<const Said> rest = said.subspan(begins[begin]);
  left.insert(left.end(), rest.begin(), rest.end());
  return left;
}

// The tokens that are known without encoding anything.
int64_t NumKnown(std::span<const Said> said) {
  int64_t n = 0;
  for (const Said& one : said) n += std::ssize(one.ids);
  return n;
}

// What helps where there is no room for an answer.
std::string FullText(bool drops) {
  return absl::StrCat("the conversation is full, /new begins another",
                      drops ? "" : ", /set run.on_full=drop_turns leaves out the oldest messages",
                      ": ");
}

// The new tokens that the config gives an answer where there is room.
int64_t MostOfAnAnswer(const Engine& engine) {
  return AnswersAreOpen(engine.config()) ? MostOfOpenAnswer(engine)
                                         : engine.default_max_new_tokens();
}

// Whether a request failed because it is too long.
bool IsTooLong(const absl::StatusOr<GenerateRequest>& request) {
  return absl::IsResourceExhausted(request.status());
}

// The fewest turns without which `try_without` succeeds, where it does without `most`. Texts that
// are far too long cost much, so it begins with the short ones, in steps that double.
absl::StatusOr<size_t> FewestToDrop(size_t most,
                                    absl::FunctionRef<absl::Status(size_t)> try_without) {
  size_t fits = most;
  size_t below = 0;  // what is below is too long
  size_t step = 1;
  while (fits > below) {
    const size_t next = fits - std::min(step, fits - below);
    const absl::Status status = try_without(next);
    if (status.ok()) {
      fits = next;
      step *= 2;
    } else if (absl::IsResourceExhausted(status)) {
      below = next + 1;
      step = std::max<size_t>(1, (fits - below) / 2);
    } else {
      return status;
    }
  }
  return fits;
}

}  // namespace

std::string DroppedText(int n_dropped) {
  return absl::StrCat("the context is full: the oldest ", n_dropped,
                      " messages of the conversation are left out");
}

bool HasRole(const Said& said, std::string_view role) {
  const auto found = said.message.find("role");
  return found != said.message.end() && *found == role;
}

std::optional<std::string> TextOf(const Said& said) {
  const auto found = said.message.find("content");
  if (found == said.message.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

Conversation::Conversation(Engine& engine, std::string tools, int64_t capacity)
    : engine_(engine), tools_(std::move(tools)), capacity_(capacity) {}

Conversation::~Conversation() { Reset(); }

const Said* Conversation::LastQuestion() const {
  const bool answered = !said_.empty() && HasRole(said_.back(), "assistant");
  const size_t n = said_.size() - (answered ? 1 : 0);
  return n == 0 || HasRole(said_[n - 1], "system") ? nullptr : &said_[n - 1];
}

void Conversation::Reset() {
  if (sequence_) engine_.CloseSequence(*sequence_);
  sequence_.reset();
  held_.clear();
  said_.clear();
  fed_.clear();
  length_ = 0;
  full_ = false;
}

bool Conversation::Spells(const Said& answer) const {
  const absl::StatusOr<std::string> spelled = engine_.Decode(answer.ids);
  const std::optional<std::string> text = TextOf(answer);
  // A text that ended the answer is in the ids alone.
  return spelled.ok() && text && ReplaceInvalidUtf8(*spelled).starts_with(*text);
}

int Conversation::Replace(std::vector<Said> said, std::string tools) {
  Reset();
  said_ = std::move(said);
  tools_ = std::move(tools);
  int n_other = 0;
  for (Said& one : said_) {
    if (one.ids.empty() || Spells(one)) continue;
    one.ids.clear();
    one.cut = false;
    ++n_other;
  }
  return n_other;
}

absl::Status Conversation::Undo() {
  if (LastQuestion() == nullptr) return UsageError("there is no message to take back");
  said_ = BeforeAnswer();
  said_.pop_back();
  full_ = false;
  NG_ASSIGN_OR_RETURN(fed_, FedBy(said_));
  length_ = std::ssize(fed_);
  return absl::OkStatus();
}

std::vector<Said> Conversation::BeforeAnswer() const {
  std::vector<Said> said = said_;
  if (HasRole(said.back(), "assistant")) said.pop_back();
  return said;
}

// Answer by answer, as the conversation came about.
absl::StatusOr<std::vector<int32_t>> Conversation::FedBy(std::span<const Said> said) const {
  std::vector<int32_t> fed;
  for (size_t i = 0; i < said.size(); ++i) {
    if (!HasRole(said[i], "assistant")) continue;
    if (said[i].ids.empty() || i == 0) {
      fed.clear();
      continue;
    }
    NG_ASSIGN_OR_RETURN(fed, Encode(said.first(i), fed));
    fed.insert(fed.end(), said[i].ids.begin(), said[i].ids.end());
  }
  return fed;
}

absl::StatusOr<std::vector<int32_t>> Conversation::Encode(std::span<const Said> said,
                                                          std::span<const int32_t> fed) const {
  return engine_.EncodeConversation({.messages = MessagesText(said), .tools = tools_}, fed);
}

absl::StatusOr<std::vector<int32_t>> Conversation::PromptOf(std::span<const Said> said) const {
  if (!fed_.empty() && said.size() == said_.size() + 1) return Encode(said, fed_);
  NG_ASSIGN_OR_RETURN(const std::vector<int32_t> fed, FedBy(said));
  return Encode(said, fed);
}

absl::Status Conversation::FitIn(int64_t least, GenerateRequest* request) const {
  const int64_t prompt_len = std::ssize(request->prompt_ids);
  const int64_t wanted = MostOfAnAnswer(engine_);
  if (wanted > 0) {
    const int64_t room = std::max<int64_t>(1, capacity_ - prompt_len);
    NG_RETURN_IF_ERROR(FitContext(engine_, std::min(room, wanted), request));
    request->max_new_tokens = std::max(request->max_new_tokens, least);
  }
  NG_RETURN_IF_ERROR(engine_.CheckRequest(*request));
  return CheckCap(prompt_len, request->max_new_tokens, capacity_, "conversation tokens");
}

absl::StatusOr<GenerateRequest> Conversation::RequestOf(std::span<const Said> said,
                                                        std::span<const int32_t> answered,
                                                        int64_t least) const {
  GenerateRequest request;
  request.max_new_tokens = engine_.default_max_new_tokens();
  request.n_answered = std::ssize(answered);
  NG_ASSIGN_OR_RETURN(request.prompt_ids, PromptOf(said));
  if (engine_.wants_context()) {
    NG_ASSIGN_OR_RETURN(
        request.context_tokens,
        engine_.ContextOf({.messages = MessagesText(said), .tools = tools_}, request.prompt_ids));
  }
  request.prompt_ids.insert(request.prompt_ids.end(), answered.begin(), answered.end());
  NG_RETURN_IF_ERROR(FitIn(least, &request));
  return request;
}

absl::StatusOr<GenerateRequest> Conversation::RequestFor(std::span<const int32_t> answered,
                                                         std::vector<Said>* said,
                                                         int* n_dropped) const {
  const bool drops = engine_.config().Text("run.on_full") == "drop_turns";
  const std::vector<size_t> begins = Beginnings(*said);
  const size_t most = drops ? begins.size() - 1 : 0;  // turns that may go
  // Rather than a next answer that is cut at once, the oldest turns go.
  const int64_t least = drops ? std::max<int64_t>(1, engine_.default_max_new_tokens()) : 1;
  const auto without = [&](size_t n, int64_t least_new) {
    return RequestOf(Left(*said, begins, n), answered, least_new);
  };
  size_t n = 0;
  const bool may_fit = NumKnown(*said) + std::ssize(answered) + least <= capacity_;
  absl::StatusOr<GenerateRequest> request = without(may_fit ? 0 : most, least);
  const bool drops_some = most > 0 && !(may_fit && !IsTooLong(request));
  if (drops_some && may_fit) request = without(most, least);
  if (drops_some && request.ok()) {
    NG_ASSIGN_OR_RETURN(n, FewestToDrop(most, [&](size_t fewer) {
                          absl::StatusOr<GenerateRequest> longer = without(fewer, least);
                          if (longer.ok()) request = longer;
                          return longer.status();
                        }));
  } else if (IsTooLong(request) && least > 1) {
    n = most;
    request = without(n, 1);
  }
  std::vector<Said> left = Left(*said, begins, n);
  const bool answers =
      std::ranges::any_of(left, [](const Said& one) { return HasRole(one, "assistant"); });
  if (IsTooLong(request) && answers) {
    return Annotate(request.status(), FullText(drops));
  }
  if (n > 0) *n_dropped += static_cast<int>(begins[n] - begins[0]);
  *said = std::move(left);
  return request;
}

absl::StatusOr<Completion> Conversation::Answer(std::vector<Said> said,
                                                std::vector<int32_t> answered,
                                                const TurnHooks& hooks) {
  int n_dropped = 0;
  NG_ASSIGN_OR_RETURN(GenerateRequest request, RequestFor(answered, &said, &n_dropped));
  if (hooks.on_begin) hooks.on_begin(request, n_dropped);
  const bool capped = request.max_new_tokens < MostOfAnAnswer(engine_);
  NG_ASSIGN_OR_RETURN(Completion done, Run(std::move(request), hooks.generate));
  done.prompt_len -= std::ssize(answered);
  NG_ASSIGN_OR_RETURN(const std::string text, CompletionText(engine_, done));
  fed_ = done.ids;
  // What ended it is the template's to write.
  if (done.stop_reason == StopReason::kEot) fed_.pop_back();
  Said answer = MessageOf("assistant", text);
  answer.ids.assign(fed_.begin() + done.prompt_len, fed_.end());
  answer.cut =
      done.stop_reason == StopReason::kMaxNewTokens || done.stop_reason == StopReason::kInterrupted;
  said.push_back(std::move(answer));
  said_ = std::move(said);
  length_ = std::ssize(done.ids);
  full_ = capped && done.stop_reason == StopReason::kMaxNewTokens;
  return done;
}

absl::StatusOr<Completion> Conversation::Run(GenerateRequest request,
                                             const GenerateOptions& options) {
  if (!sequence_) {
    NG_ASSIGN_OR_RETURN(sequence_, engine_.OpenSequence(capacity_));
  }
  request.sequence = sequence_;
  // At least the last token is fed, since its logits choose the next.
  const int64_t most = std::ssize(request.prompt_ids) - 1;
  NG_RETURN_IF_ERROR(ForgetFrom(std::min(most, CommonLength(request.prompt_ids, held_))));
  const int64_t before = engine_.SequenceLength(*sequence_);
  // What is held has been read with the context of an earlier message.
  if (before > 0) request.context_tokens = 0;
  absl::StatusOr<std::vector<Completion>> done = engine_.Generate(std::span(&request, 1), options);
  if (!done.ok()) {
    NG_RETURN_IF_ERROR(ForgetFrom(before));
    return done.status();
  }
  held_ = done->front().ids;
  done->front().timings.prefill_tokens = most + 1 - before;
  return std::move(done->front());
}

// A cache that cannot forget some tokens forgets all, and the whole conversation is computed anew.
absl::Status Conversation::ForgetFrom(int64_t length) {
  if (length < engine_.SequenceLength(*sequence_)) {
    absl::Status cut = engine_.TruncateSequence(*sequence_, length);
    if (IsUnsupported(cut)) cut = engine_.TruncateSequence(*sequence_, 0);
    NG_RETURN_IF_ERROR(cut);
  }
  const auto n_held = static_cast<size_t>(engine_.SequenceLength(*sequence_));
  held_.resize(std::min(held_.size(), n_held));
  return absl::OkStatus();
}

absl::StatusOr<Completion> Conversation::Say(const std::string& message, const TurnHooks& hooks) {
  if (FindInvalidUtf8(message)) return UsageError("the message is not valid UTF-8");
  std::vector<Said> said = said_;
  said.push_back(MessageOf("user", message));
  return Answer(std::move(said), {}, hooks);
}

absl::StatusOr<Completion> Conversation::SayInstead(const std::string& message,
                                                    const TurnHooks& hooks) {
  if (FindInvalidUtf8(message)) return UsageError("the message is not valid UTF-8");
  std::vector<Said> said = BeforeAnswer();
  said.back() = MessageOf("user", message);
  return Answer(std::move(said), {}, hooks);
}

absl::StatusOr<Completion> Conversation::Regenerate(const TurnHooks& hooks) {
  if (LastQuestion() == nullptr) return UsageError("there is no message to answer again");
  return Answer(BeforeAnswer(), {}, hooks);
}

absl::StatusOr<Completion> Conversation::GoOn(const TurnHooks& hooks) {
  if (LastQuestion() == nullptr || !said_.back().cut) {
    return UsageError("there is no answer that was cut");
  }
  return Answer(BeforeAnswer(), said_.back().ids, hooks);
}

}  // namespace ng::run
