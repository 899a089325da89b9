// What a client sends to ng-serve: the body of a request, planned as far as the engine, and what
// comes before it. The first byte of an input says which: `c` completions, `m` chat, `r` responses,
// `a` messages, `n` their count, `o` and `l` Ollama's chat and generate, `t` tokenize, `g` a packed
// body, `p` a target, `h` headers (Host, Origin and Authorization, a line each). What is refused is
// refused as documented. What is planned can be read by the config, and answered in whole and in
// events as JSON. The engine is defined here, so that no model is needed.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/serve/access.h"
#include "apps/serve/answers/answer_plan.h"
#include "apps/serve/answers/forms/answer_form.h"
#include "apps/serve/http/content_coding.h"
#include "apps/serve/http/target.h"
#include "core/config/config.h"
#include "ng/engine.h"
#include "ng/json.h"
#include "tests/fuzz/support.h"

namespace {

using ng::fuzz::Check;

constexpr int32_t kVocabSize = 256;  // a byte is a token
constexpr const char* kModel = "m";
constexpr int kAnyDepth = 64;
constexpr ng::OptionSpec kStopTexts = ng::TextListOption("texts", "", "");

std::vector<int32_t> IdsOf(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

}  // namespace

namespace ng {

struct Engine::State {
  Config config = *MakeConfig({}, CoreConfigKeys());
  ModelShape shape;
};

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->shape.vocab_size = kVocabSize;
}
Engine::~Engine() = default;

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(const EngineOptions& /*options*/) {
  return std::unique_ptr<Engine>(new Engine(std::make_unique<State>()));
}

const Config& Engine::config() const { return state_->config; }
const ModelShape& Engine::model_shape() const { return state_->shape; }
int64_t Engine::default_max_new_tokens() const { return 1; }
std::span<const int32_t> Engine::stop_ids() const { return {}; }
bool Engine::has_tokenizer() const { return true; }
bool Engine::has_chat_template() const { return true; }
absl::Status Engine::CheckRequest(const GenerateRequest& /*request*/) const { return {}; }

absl::StatusOr<std::vector<int32_t>> Engine::Encode(std::string_view text,
                                                    const TokenizeOptions& /*options*/) const {
  return text.find('\x7f') == std::string_view::npos
             ? absl::StatusOr<std::vector<int32_t>>(IdsOf(text))
             : UsageError("the text has a DEL");
}
absl::StatusOr<std::vector<int32_t>> Engine::EncodeConversation(
    const Conversation& conversation, std::span<const int32_t> /*fed*/) const {
  // A template is run on them: it takes only what has been checked.
  fuzz::Check(CheckJson(conversation.messages, "messages", kAnyDepth).ok(), "messages are no JSON");
  fuzz::Check(conversation.tools.empty() || CheckJson(conversation.tools, "tools", kAnyDepth).ok(),
              "tools are no JSON");
  return IdsOf(conversation.messages + conversation.tools);
}
// An answer that is only text.
class PlainReader final : public AnswerReader {
 public:
  void Push(int32_t /*id*/, std::string_view /*bytes*/) override {}
  void Finish() override {}
  bool is_plain() const override { return true; }
  std::vector<AnswerDelta> Take() override { return {}; }
};
absl::StatusOr<std::unique_ptr<AnswerReader>> Engine::ReadAnswer(
    const Conversation& /*conversation*/) const {
  return std::make_unique<PlainReader>();
}
absl::StatusOr<std::string> Engine::CallGrammar(const Conversation& /*conversation*/,
                                                const CallChoice& /*choice*/) const {
  return "root ::= .*";
}
absl::StatusOr<std::string> Engine::ThoughtsGrammar(const Conversation& /*conversation*/) const {
  return "%until(\"end\": )";
}
absl::StatusOr<std::string> Engine::NotWritten(const Conversation& /*conversation*/) const {
  return std::string();
}
bool Engine::wants_context() const { return true; }
absl::StatusOr<int64_t> Engine::ContextOf(const Conversation& /*conversation*/,
                                          std::span<const int32_t> ids) const {
  return std::ssize(ids) / 2;
}
absl::StatusOr<std::string> Engine::Decode(std::span<const int32_t> ids) const {
  return std::string(ids.begin(), ids.end());
}

absl::Status CheckIds(const ModelShape& shape, std::span<const int32_t> ids) {
  const bool known = std::ranges::all_of(
      ids, [&](int32_t id) { return id >= 0 && id < static_cast<int32_t>(shape.vocab_size); });
  return known ? absl::OkStatus() : UsageError("an id is outside the vocabulary");
}

}  // namespace ng

namespace ng::serve {
namespace {

const PlanParts& Parts() {
  static const std::unique_ptr<Engine> engine = *Engine::Open({});
  static const Settings settings = [] {
    Settings made;
    made.model = kModel;
    made.key = "sesame";
    made.names = {"box.lan"};
    made.max_queued = 64;
    return made;
  }();
  constexpr int64_t kMostTokens = 1024;
  static const KeptResponses kept(1);
  static KnownTools known_tools(1, 1024);
  static ClosedTools closed_tools(1, 1024);
  static const PlanParts parts = {*engine, settings, kMostTokens, kept, known_tools, closed_tools};
  return parts;
}

void CheckBody(std::string_view body) {
  const absl::Status valid = CheckJson(body, "the answer", kAnyDepth);
  Check(valid.ok(), std::string(valid.message()));
}

// One line, with a status of the README's.
void CheckRefusal(const ApiError& error) {
  constexpr int kKnown[] = {kBadRequest, kUnauthorized, kForbidden, kNotFound};
  Check(std::ranges::count(kKnown, error.status) == 1, "a status that is not documented");
  Check(!error.message.empty(), "an error without words");
  const HttpReply reply = ErrorReply(error);
  CheckBody(reply.body);
  const Json said = Json::parse(reply.body)["error"]["message"];
  Check(said.get<std::string>().find('\n') == std::string::npos, "an error of several lines");
}

// The settings are sampler.* only, once each, and the texts that end the answer are those that the
// request gave.
void CheckSettings(const AnswerPlan& plan) {
  const auto entries = ParseOverrides(plan.settings);
  Check(entries.ok(), "settings that are no overrides");
  const SamplingFields& asked = plan.fields.sampling;
  const std::string form = absl::StrCat("sampler.grammar.", std::string(asked.form.option));
  std::set<std::string> seen;
  std::vector<ConfigEntry> stops;
  for (const ConfigEntry& entry : *entries) {
    Check(entry.key.starts_with("sampler."), "a setting that is not the sampler's: " + entry.key);
    Check(seen.insert(entry.key).second, "a setting that comes twice: " + entry.key);
    if (entry.key == "sampler.stop_texts.texts") stops.push_back(entry);
    if (entry.key == form) Check(entry.text == asked.form.value, "another form");
    if (entry.key != "sampler.logit_bias.bias") continue;
    Check(std::ranges::count(entry.text, '=') == std::ssize(asked.logit_bias), "other biases");
  }
  Check(asked.form.option.empty() || seen.contains(form), "a form that is not kept");
  Check(asked.logit_bias.empty() || seen.contains("sampler.logit_bias.bias"), "no biases");
  const ConfigKey key = {.key = "sampler.stop_texts.texts", .spec = &kStopTexts};
  const absl::StatusOr<Config> config = MakeConfig(stops, {&key, 1});
  Check(config.ok(), "stop texts that the config refuses");
  const std::vector<OptionValue> values = PluginValues(*config, "sampler", "stop_texts");
  const std::span<const std::string_view> texts = values.front().List<std::string_view>();
  Check(std::ranges::equal(texts, asked.stop), "other stop texts");
}

// Answers with the prompts, and with the stop texts cut to pieces, as a model of bytes may.
void CheckAnswer(const AnswerPlan& plan) {
  const AnswerHead head = {.kind = plan.kind, .id = "id", .created = 1, .model = kModel};
  const auto form =
      FormOf(plan.kind).make(head, {.include_usage = plan.fields.include_usage, .said = plan.said});
  std::vector<ShownToken> tokens;
  for (const int32_t id : plan.prompts.front().ids) {
    const std::string bytes(1, static_cast<char>(id));
    tokens.push_back({.bytes = bytes, .logprob = -1.0, .top = {{bytes, -1.0}}});
  }
  Choice choice = {.text = plan.prompts.front().text, .ids = plan.prompts.front().ids};
  if (plan.fields.logprobs) choice.tokens = &tokens;
  if (plan.fields.stream) {
    std::string events =
        absl::StrCat(form->Begin({}), form->Piece(choice, true), form->SignOfLife());
    choice.stop_reason = StopReason::kMaxNewTokens;
    absl::StrAppend(&events, form->Piece(choice, false), form->End({}));
    for (const absl::string_view line : absl::StrSplit(events, '\n')) {
      const std::string_view text(line.data(), line.size());
      if (text.starts_with("data: {")) CheckBody(text.substr(std::string_view("data: ").size()));
    }
    return;
  }
  choice.stop_reason = StopReason::kMaxNewTokens;
  AddPiece(choice, &choice.items);
  CheckBody(form->Whole({&choice, 1}, {}));
}

void CheckPlan(const Parsed<AnswerPlan>& parsed) {
  if (const auto* const error = std::get_if<ApiError>(&parsed)) return CheckRefusal(*error);
  const AnswerPlan& plan = std::get<AnswerPlan>(parsed);
  if (!plan.at_once.is_null()) return CheckBody(JsonText(plan.at_once));
  Check(plan.fields.model == kModel, "another model");
  Check(plan.n_choices() >= 1 && plan.n_choices() <= 64,
        "more choices than the queue has room for");
  Check(plan.max_new_tokens >= 0, "fewer than no tokens");
  CheckSettings(plan);
  CheckAnswer(plan);
}

void CheckTokens(const Parsed<Json>& parsed) {
  if (const auto* const error = std::get_if<ApiError>(&parsed)) return CheckRefusal(*error);
  const Json& json = std::get<Json>(parsed);
  Check(json["count"] == json["tokens"].size(), "a count of other tokens");
}

void CheckPacked(std::string body) {
  constexpr int64_t kMostBytes = 1 << 16;
  const int refused = RemoveContentCoding("gzip", kMostBytes, &body);
  Check(refused == 0 || refused == kBadRequest || refused == kTooLarge, "another status");
  Check(refused != 0 || std::ssize(body) <= kMostBytes, "more than may be");
}

void CheckTarget(const std::string& text) {
  const std::optional<Target> target = ParseTarget(text);
  if (target)
    Check(target->path.size() <= text.size() + 1, "a path that is longer than its target");
}

// Only the server's own names and pages may ask, and only with the key.
void CheckHeaders(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, absl::MaxSplits('\n', 2));
  HttpRequest request;
  request.host = lines[0];
  if (lines.size() > 1) request.origin = lines[1];
  if (lines.size() > 2) request.authorization = lines[2];
  const auto source = CheckSource(request, Parts().settings);
  if (source) CheckRefusal(*source);
  const auto key = CheckKey(request, Parts().settings);
  if (key) CheckRefusal(*key);
  const bool has_key = request.authorization.ends_with("sesame");
  Check(has_key || key.has_value(), "a stranger was let in");
}

}  // namespace
}  // namespace ng::serve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  using namespace ng::serve;  // NOLINT(google-build-using-namespace): the entry has C linkage
  const std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'c':
      CheckPlan(PlanAnswer(AnswerKind::kCompletion, body, Parts()));
      break;
    case 'm':
      CheckPlan(PlanAnswer(AnswerKind::kChat, body, Parts()));
      break;
    case 'r':
      CheckPlan(PlanAnswer(AnswerKind::kResponse, body, Parts()));
      break;
    case 'a':
      CheckPlan(PlanAnswer(AnswerKind::kMessage, body, Parts()));
      break;
    case 'o':
      CheckPlan(PlanAnswer(AnswerKind::kOllamaChat, body, Parts()));
      break;
    case 'l':
      CheckPlan(PlanAnswer(AnswerKind::kOllamaGenerate, body, Parts()));
      break;
    case 'n': {
      const Parsed<Json> counted = CountTokens(body, Parts());
      if (const auto* const error = std::get_if<ApiError>(&counted)) CheckRefusal(*error);
      break;
    }
    case 'g':
      CheckPacked(body);
      break;
    case 'p':
      CheckTarget(body);
      break;
    case 't':
      CheckTokens(Tokenize(body, Parts()));
      break;
    default:
      CheckHeaders(body);
  }
  return 0;
}
