#include "apps/run/chat/session.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/common/arguments.h"
#include "apps/common/columns.h"
#include "apps/common/input.h"
#include "apps/run/chat/commands.h"
#include "apps/run/chat/user_path.h"
#include "apps/run/outputs.h"
#include "ng/config.h"

namespace ng::run {
namespace {

constexpr const char* kChain = "sampler.chain";
constexpr const char* kSeed = "sampler.seed";
constexpr const char* kSystem = "run.system";
constexpr int64_t kMostFileBytes = int64_t{64} << 20;

// More than any marker of thoughts has.
constexpr size_t kPromptEndTokens = 64;

std::vector<std::string> Overrides(const std::map<std::string, std::string>& settings) {
  std::vector<std::string> overrides;
  for (const auto& [key, value] : settings) overrides.push_back(absl::StrCat(key, "=", value));
  return overrides;
}

// Whether a file that is there holds what /save writes, or nothing.
absl::Status CheckReplaceable(const std::string& path, const std::atomic<bool>* stop) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
    return absl::OkStatus();
  }
  const InputLog log;  // it may be written all the same
  const absl::StatusOr<std::string> text = ReadUserFile(path, stop, kMostFileBytes);
  if (text.ok() && ParseChatFile(*text, path).ok()) return absl::OkStatus();
  return UsageError(path + ": is there and holds no conversation; name another file");
}

}  // namespace

Session::Session(Engine& engine, const CommandLine& line, int64_t capacity, SessionHost host)
    : engine_(engine),
      line_(line),
      host_(std::move(host)),
      conversation_(engine, line.tools, capacity) {}

bool IsBlank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

absl::Status Session::Tell(const absl::Status& error) {
  if (absl::IsCancelled(error) && !host_.take_interrupt()) return error;
  return host_.fault(error);
}

void Session::GiveUpDraft() {
  draft_.clear();
  replaces_ = false;
}

absl::Status Session::Take(const std::string& typed) {
  if (IsCommand(typed)) {
    GiveUpDraft();
    absl::Status status = RunCommand(typed, *this);
    if (!fatal_.ok()) return fatal_;
    return status.ok() ? status : Tell(status);
  }
  const std::string message = typed.starts_with("//") ? typed.substr(1) : typed;
  const bool replaces = std::exchange(replaces_, false);
  draft_.clear();
  if (IsBlank(message)) return absl::OkStatus();
  return Run([&](const TurnHooks& hooks) {
    return replaces ? conversation_.SayInstead(message, hooks) : conversation_.Say(message, hooks);
  });
}

absl::Status Session::Run(Turn turn, bool goes_on) {
  CompletionWriter writer(engine_, line_.jsonl, 1, n_turns_);
  absl::Status written;  // of stdout, which ends the chat
  const auto write = [&](const std::string& text) {
    if (!text.empty()) written = host_.answer(text);
    return written;
  };
  writer.set_sink([&](std::string_view text) { return write(view_->Push(text)); });
  TurnHooks hooks;
  AddCacheDebug(line_, &hooks.generate);
  hooks.generate.on_step = [&](int, const StepRecord& record) { return writer.OnStep(record); };
  hooks.generate.on_done = [&](int index, const Completion& completion) {
    NG_RETURN_IF_ERROR(writer.OnDone(index, completion));
    const bool nothing = completion.stop_reason == StopReason::kError &&
                         std::ssize(completion.ids) == completion.prompt_len;
    return line_.jsonl || nothing ? absl::OkStatus() : write(view_->Finish());
  };
  hooks.on_begin = [&](const GenerateRequest& request, int n_dropped) {
    ++n_turns_;
    if (n_dropped > 0) host_.warning(DroppedText(n_dropped));
    const auto n_asked = request.prompt_ids.size() - static_cast<size_t>(request.n_answered);
    const size_t begin = n_asked - std::min(n_asked, kPromptEndTokens);
    const std::span<const int32_t> ids(request.prompt_ids);
    const absl::StatusOr<std::string> prompt = engine_.Decode(ids.subspan(begin, n_asked - begin));
    const std::string said =
        goes_on ? TextOf(conversation_.said().back()).value_or("") : std::string();
    view_.emplace(host_.style, prompt.value_or(""), said);
  };
  absl::StatusOr<Completion> done = turn(hooks);
  fatal_ = written;
  if (!written.ok()) return written;
  if (!done.ok()) return fatal_ = Tell(done.status());
  ShowEnd(*done);
  if (done->stop_reason != StopReason::kInterrupted) return absl::OkStatus();
  return host_.take_interrupt() ? absl::OkStatus() : InterruptedError("interrupted");
}

void Session::ShowEnd(const Completion& completion) {
  const int64_t n_answer = std::ssize(completion.ids) - completion.prompt_len;
  n_answer_tokens_ += n_answer;
  if (!host_.closing_lines) {
    if (conversation_.full()) host_.warning(absl::StrCat("the answer is cut: ", kFullHelp));
    return;
  }
  const TurnFigures figures = {.stop_reason = completion.stop_reason,
                               .full = conversation_.full(),
                               .n_answer = n_answer,
                               .length = conversation_.length(),
                               .capacity = conversation_.capacity(),
                               .seed = engine_.config().Int(kSeed),
                               .timings = completion.timings};
  host_.remark(StatusLine(figures, host_.columns()));
}

absl::Status Session::Change(std::map<std::string, std::string> settings) {
  NG_RETURN_IF_ERROR(engine_.Set(Overrides(settings)));
  settings_ = std::move(settings);
  conversation_.SettingsChanged();
  return absl::OkStatus();
}

absl::Status Session::ChangeOne(const std::string& key, const std::string& value) {
  std::map<std::string, std::string> settings = settings_;
  settings[key] = value;
  return Change(std::move(settings));
}

absl::Status Session::Help(const std::string&) {
  for (const absl::string_view line :
       absl::StrSplit(CommandHelp(host_.columns()), '\n', absl::SkipEmpty())) {
    host_.tell({line.data(), line.size()});
  }
  return absl::OkStatus();
}

absl::Status Session::New(const std::string&) {
  conversation_.Reset();
  view_.reset();
  host_.remark("[a new conversation]");
  return absl::OkStatus();
}

absl::Status Session::Regenerate(const std::string& seed) {
  if (conversation_.LastQuestion() == nullptr) {
    return UsageError("there is no message to answer again");
  }
  const int64_t before = engine_.config().Int(kSeed);
  const uint64_t next = static_cast<uint64_t>(before) + 1;
  NG_RETURN_IF_ERROR(ChangeOne(kSeed, seed.empty() ? absl::StrCat(next) : seed));
  return Run([&](const TurnHooks& hooks) { return conversation_.Regenerate(hooks); });
}

absl::Status Session::Edit(const std::string&) {
  const Said* const question = conversation_.LastQuestion();
  if (question == nullptr || !HasRole(*question, "user") || !TextOf(*question)) {
    return UsageError("there is no message to change");
  }
  draft_ = *TextOf(*question);
  if (draft_.starts_with('/')) draft_ = absl::StrCat("/", draft_);
  replaces_ = true;
  return absl::OkStatus();
}

absl::Status Session::Undo(const std::string&) {
  const Said* const question = conversation_.LastQuestion();
  const std::string text = question == nullptr ? "" : TextOf(*question).value_or("...");
  NG_RETURN_IF_ERROR(conversation_.Undo());
  view_.reset();
  host_.remark(absl::StrCat("[taken back: ", text, "]"));
  return absl::OkStatus();
}

absl::Status Session::Model(const std::string& argument) {
  if (!argument.empty()) {
    return UsageError(
        absl::StrCat("a chat keeps its model; begin another one: ng-run -c ", ShellWord(argument)));
  }
  host_.tell(Summary());
  return absl::OkStatus();
}

std::string Session::Summary() const {
  const Config& config = engine_.config();
  std::string path = config.Text("model.path");
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::string& named = config.Text("serve.model");
  const std::string model = named.empty() ? path.substr(path.rfind('/') + 1) : named;
  std::vector<std::string> stages;
  for (const std::string& stage : config.Names(kChain)) {
    stages.push_back(stage);
    const std::string options = absl::StrCat("sampler.", stage, ".");
    const auto first = std::ranges::find_if(config.items(), [&](const ConfigItem& item) {
      return item.declared.key.starts_with(options);
    });
    if (first == config.items().end()) continue;
    const OptionType type = first->declared.spec->type;
    if (type != OptionType::kInt && type != OptionType::kReal) continue;
    absl::StrAppend(&stages.back(), " ", first->value.text);
  }
  return absl::StrCat(model, " | context ", conversation_.capacity(), " | ",
                      absl::StrJoin(stages, ", "), " | seed ", config.Int(kSeed));
}

absl::Status Session::System(const std::string& text) {
  if (text.empty()) {
    const std::string& now = engine_.config().Text(kSystem);
    host_.tell(now.empty() ? "[there is no system text]" : now);
    return absl::OkStatus();
  }
  NG_RETURN_IF_ERROR(ChangeOne(kSystem, text == "-" ? "" : text));
  host_.remark("[the system text is another one from the next message on]");
  return absl::OkStatus();
}

absl::Status Session::ShowSettings() {
  for (const ConfigItem& item : engine_.config().items()) {
    const std::string& key = item.declared.key;
    if (Engine::CanSet(key)) host_.tell(absl::StrCat(key, " = ", engine_.config().Text(key)));
  }
  return absl::OkStatus();
}

absl::Status Session::Set(const std::string& setting) {
  if (setting.empty()) return ShowSettings();
  const std::string key = setting.substr(0, setting.find_first_of("= \t"));
  std::string value = setting.substr(key.size());
  absl::StripLeadingAsciiWhitespace(&value);
  const Spelling* const spelling = FindSpelling(key);
  if (key.find('.') == key.npos && spelling == nullptr) {
    return UsageError(absl::StrCat("/set ", setting, ": must be /set SECTION.KEY=VALUE"));
  }
  if (value.empty() && (spelling == nullptr || spelling->takes_value)) {
    return UsageError(absl::StrCat("/set ", key, " needs a value: /set ", key, "=VALUE"));
  }
  if (value.starts_with('=')) value.erase(0, 1);
  absl::StripLeadingAsciiWhitespace(&value);
  if (spelling != nullptr) return SetSpelled(*spelling, absl::StrCat(key, "=", value));
  NG_RETURN_IF_ERROR(ChangeOne(key, value));
  host_.remark(absl::StrCat("[", key, " = ", engine_.config().Text(key), "]"));
  return absl::OkStatus();
}

// By what comes of it: the keys are kept, not the other program's name for one.
absl::Status Session::SetSpelled(const Spelling& spelling, const std::string& setting) {
  const std::string chain = engine_.config().Text(kChain);
  std::vector<std::string> overrides = Overrides(settings_);
  overrides.push_back(setting);
  NG_RETURN_IF_ERROR(engine_.Set(overrides));
  const std::vector<std::string> stages = engine_.config().Names(kChain);
  const bool runs = spelling.stage.empty() || std::ranges::count(stages, spelling.stage) != 0;
  std::map<std::string, std::string> settings = settings_;
  std::vector<std::string> notes;
  for (const ConfigItem& item : engine_.config().items()) {
    const std::string& key = item.declared.key;
    const bool given = item.origin.kind == ConfigOrigin::Kind::kCommandLine;
    const bool meant = key == kChain ? item.value.text != chain : runs && key == spelling.key;
    if (!given || !meant) continue;
    settings[key] = item.value.text;
    notes.push_back(absl::StrCat("[", key, " = ", item.value.text, "]"));
  }
  NG_RETURN_IF_ERROR(Change(std::move(settings)));
  for (const std::string& note : notes) host_.remark(note);
  return absl::OkStatus();
}

absl::Status Session::Stats(const std::string&) {
  const auto n_answers = std::ranges::count_if(
      conversation_.said(), [](const Said& one) { return HasRole(one, "assistant"); });
  host_.tell(absl::StrCat("messages ", conversation_.said().size(), ", answers ", n_answers));
  host_.tell(absl::StrCat("context ", conversation_.length(), " of ", conversation_.capacity(),
                          " tokens"));
  host_.tell(absl::StrCat("generated ", Counted(n_answer_tokens_, "token"), " in ",
                          Counted(n_turns_, "run")));
  host_.tell(absl::StrCat("sampler.chain = ", engine_.config().Text("sampler.chain"), ", ", kSeed,
                          " = ", engine_.config().Int(kSeed)));
  for (const auto& [key, value] : settings_) {
    if (key != kSeed) host_.tell(absl::StrCat("set: ", key, " = ", value));
  }
  NG_ASSIGN_OR_RETURN(const std::vector<Statistic> cache, engine_.CacheStatistics());
  for (const Statistic& figure : cache) {
    host_.tell(absl::StrCat("cache: ", std::string(figure.name), " = ", figure.value));
  }
  NG_ASSIGN_OR_RETURN(const std::vector<std::string> reports, engine_.Reports());
  for (const std::string& report : reports) host_.tell(report);
  return absl::OkStatus();
}

SavedChat Session::Saved() const {
  SavedChat chat = {
      .said = conversation_.said(), .tools = conversation_.tools(), .settings = settings_};
  const std::string& system = engine_.config().Text(kSystem);
  const bool has_one = !chat.said.empty() && HasRole(chat.said.front(), "system");
  if (!system.empty() && !has_one) {
    Said said;
    said.message["role"] = "system";
    said.message["content"] = system;
    chat.said.insert(chat.said.begin(), std::move(said));
  }
  chat.settings.erase(kSystem);
  chat.settings[kSeed] = engine_.config().Text(kSeed);
  return chat;
}

absl::Status Session::Save(const std::string& file) {
  if (conversation_.said().empty()) return UsageError("there is nothing to save yet");
  const std::string path = UserPath(file);
  const NamedOutput output = {"/save", path};
  NG_RETURN_IF_ERROR(CheckOutputs({&output, 1}, *host_.inputs));
  NG_RETURN_IF_ERROR(CheckReplaceable(path, host_.stop));
  NG_ASSIGN_OR_RETURN(AtomicFileWriter writer, AtomicFileWriter::Create(path, host_.stop));
  NG_RETURN_IF_ERROR(writer.Write(ChatFileText(Saved())));
  NG_RETURN_IF_ERROR(writer.Commit());
  host_.remark(absl::StrCat("[saved ", Counted(std::ssize(conversation_.said()), "message"), "]"));
  return absl::OkStatus();
}

absl::Status Session::Load(const std::string& file) {
  const std::string path = UserPath(file);
  const InputLog log;  // what is loaded may be saved again
  NG_ASSIGN_OR_RETURN(const std::string text, ReadUserFile(path, host_.stop, kMostFileBytes));
  NG_ASSIGN_OR_RETURN(SavedChat chat, ParseChatFile(text, path));
  return Restore(std::move(chat), path);
}

absl::Status Session::Restore(SavedChat chat, const std::string& name) {
  // The system text is a setting, and none is one too.
  std::string& system = chat.settings[kSystem];
  system.clear();
  if (HasRole(chat.said.front(), "system") && TextOf(chat.said.front())) {
    system = *TextOf(chat.said.front());
    chat.said.erase(chat.said.begin());
  }
  if (chat.said.empty()) return UsageError(name + ": holds no message but a system text");
  const std::map<std::string, std::string> before = settings_;
  absl::Status status = Change(std::move(chat.settings));
  if (!status.ok()) return Annotate(status, name + ": ");
  if (chat.tools.empty()) chat.tools = line_.tools;
  auto messages = nlohmann::ordered_json::array();
  for (const Said& one : chat.said) messages.push_back(one.message);
  status = engine_
               .EncodeConversation({.messages = messages.dump(),
                                    .tools = chat.tools,
                                    .asks = !HasRole(chat.said.back(), "assistant")})
               .status();
  if (!status.ok() && !absl::IsResourceExhausted(status)) {
    Change(before).IgnoreError();
    return Annotate(status, name + ": ");
  }
  const int n_other = conversation_.Replace(std::move(chat.said), std::move(chat.tools));
  view_.reset();
  if (n_other > 0) {
    host_.remark(absl::StrCat(
        "[", n_other, " answers are of another model: their texts count, not their tokens]"));
  }
  host_.remark(absl::StrCat("[loaded ", Counted(std::ssize(conversation_.said()), "message"), "]"));
  if (const Said* const question = conversation_.LastQuestion(); question != nullptr) {
    host_.remark(absl::StrCat("> ", TextOf(*question).value_or("...")));
  }
  const Said& last = conversation_.said().back();
  if (!HasRole(last, "assistant")) return absl::OkStatus();
  const std::string text = TextOf(last).value_or("...");
  AnswerView view(host_.style, "", "");
  const std::string shown = view.Push(text);
  return host_.answer(shown + view.Finish());
}

absl::Status Session::Exit(const std::string&) {
  ended_ = true;
  return absl::OkStatus();
}

absl::Status Session::Think(const std::string&) {
  host_.style.folded = !host_.style.folded;
  if (!host_.style.folded && view_ && !view_->thought().empty()) host_.remark(view_->thought());
  host_.remark(host_.style.folded ? "[thoughts are folded]" : "[thoughts are shown]");
  return absl::OkStatus();
}

absl::Status Session::More(const std::string&) {
  return Run([&](const TurnHooks& hooks) { return conversation_.GoOn(hooks); }, true);
}

}  // namespace ng::run
