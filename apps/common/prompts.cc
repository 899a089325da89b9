#include "apps/common/prompts.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/common/answer_room.h"
#include "apps/common/input.h"
#include "apps/common/json.h"
#include "apps/common/terminal.h"

namespace ng {
namespace {

constexpr const char* kStdin = "/dev/stdin";
constexpr std::string_view kDash = "-";
constexpr int kMaxJsonDepth = 36;  // a schema of a tool is deep

std::string PathOf(const std::string& file) { return file == kDash ? kStdin : file; }

absl::StatusOr<std::vector<int32_t>> IdsOf(const nlohmann::json& value) {
  std::vector<int32_t> ids;
  if (!value.is_array()) return UsageError("\"prompt_ids\" must be a list of token ids");
  for (const nlohmann::json& item : value) {
    if (!item.is_number_integer() || item < std::numeric_limits<int32_t>::min() ||
        item > std::numeric_limits<int32_t>::max()) {
      return UsageError(
          absl::StrCat("\"prompt_ids\" holds ", ShownJson(item), ", must hold token ids"));
    }
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

TokenizeOptions HowToTokenize(const PromptOptions& options) {
  return {.parse_special = options.parse_special, .must_fit = true};
}

// Puts a text into a request: as a message, or to go on with. What --context has stands before it;
// an empty line is between them.
absl::Status SetText(const std::string& text, bool answers, const PromptOptions& options,
                     const Engine& engine, GenerateRequest* request) {
  const auto encode = [&](const std::string& all) {
    return answers ? engine.EncodeMessage(all, options.tools)
                   : engine.Encode(all, HowToTokenize(options));
  };
  const std::string& context = options.context;
  NG_ASSIGN_OR_RETURN(request->prompt_ids,
                      encode(context.empty() ? text : absl::StrCat(context, "\n\n", text)));
  const std::vector<int32_t>& ids = request->prompt_ids;
  if (!context.empty()) {
    // The tokens at the end of the one may be others than in the middle of the other.
    NG_ASSIGN_OR_RETURN(const std::vector<int32_t> alone, encode(context));
    request->context_tokens = std::ranges::mismatch(alone, ids).in2 - ids.begin();
  } else if (answers && engine.wants_context()) {
    auto said = nlohmann::ordered_json::array();
    said.push_back({{"role", "user"}, {"content", text}});
    NG_ASSIGN_OR_RETURN(request->context_tokens,
                        engine.ContextOf({.messages = said.dump(), .tools = options.tools}, ids));
  }
  return absl::OkStatus();
}

// A request of the command line, still without its prompt.
GenerateRequest NewRequest(const PromptOptions& options, const Engine& engine) {
  GenerateRequest request;
  request.max_new_tokens = engine.default_max_new_tokens();
  request.load_cache = options.load_cache;
  request.save_cache = options.save_cache;
  return request;
}

// Puts {"messages": [...]}, perhaps with "tools", into a request. A template may print what it is
// given, so the keys keep their order.
absl::Status SetMessages(std::string_view text, const PromptOptions& options, const Engine& engine,
                         GenerateRequest* request) {
  if (!options.context.empty()) {
    return UsageError(
        "--context does not go with \"messages\": those before the last one are its "
        "context");
  }
  const auto fields = nlohmann::ordered_json::parse(text);
  const Conversation said = {
      .messages = fields["messages"].dump(),
      .tools = fields.contains("tools") ? fields["tools"].dump() : options.tools};
  NG_ASSIGN_OR_RETURN(request->prompt_ids, engine.EncodeConversation(said));
  if (!engine.wants_context()) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(request->context_tokens, engine.ContextOf(said, request->prompt_ids));
  return absl::OkStatus();
}

// A whole number that may be any.
absl::StatusOr<int64_t> IntOf(const nlohmann::json& json, const char* key) {
  const nlohmann::json& value = json[key];
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (fits) return value.get<int64_t>();
  return UsageError(
      absl::StrCat("\"", key, "\" = ", ShownJson(value), ", must be an integer in [-2^63, 2^63)"));
}

// What a line has in place of what the command line says.
absl::Status SetNumbers(const nlohmann::json& json, GenerateRequest* request) {
  if (json.contains("max_new_tokens")) {
    NG_ASSIGN_OR_RETURN(request->max_new_tokens, IntOf(json, "max_new_tokens"));
  }
  if (!json.contains("context_tokens")) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(request->context_tokens, IntOf(json, "context_tokens"));
  return absl::OkStatus();
}

// Adds a checked request. `answers`: it is a message's. Where `max_new_tokens` is the config's, the
// config may leave open how long the answer is.
absl::Status Add(GenerateRequest request, bool answers, const PromptOptions& options,
                 const Engine& engine, PromptRequests* read) {
  const bool by_default = request.max_new_tokens == engine.default_max_new_tokens();
  const bool open = (answers && options.open_answers && AnswersAreOpen(engine.config())) ||
                    (by_default && NothingLimits(engine.config()));
  NG_RETURN_IF_ERROR(open ? FitContext(engine, MostOfOpenAnswer(engine), &request)
                          : engine.CheckRequest(request));
  if (open) read->open.push_back(read->requests.size());
  read->requests.push_back(std::move(request));
  return absl::OkStatus();
}

// {"prompt": text}, {"prompt_ids": [...]} or {"messages": [...]}, and perhaps "max_new_tokens" and
// "context_tokens".
absl::Status AddLine(std::string_view text, const std::string& name, const PromptOptions& options,
                     const Engine& engine, PromptRequests* read) {
  absl::StatusOr<nlohmann::json> json = ParseUserJson(text, name, kMaxJsonDepth);
  if (!json.ok()) return AsUsage(json.status());
  if (!json->is_object()) return UsageError(name + ": must be a JSON object");
  GenerateRequest request = NewRequest(options, engine);
  constexpr std::string_view kKeys[] = {"prompt", "prompt_ids",     "messages",
                                        "tools",  "max_new_tokens", "context_tokens"};
  for (const auto& [key, value] : json->items()) {
    if (std::ranges::count(kKeys, key) != 0) continue;
    return UsageError(absl::StrCat(
        name, ": unknown key \"", key, "\"; allowed: ",
        absl::StrJoin(kKeys, ", ", [](std::string* out, auto allowed) { out->append(allowed); })));
  }
  if (json->contains("prompt") + json->contains("prompt_ids") + json->contains("messages") != 1) {
    return UsageError(name + ": must have one of \"prompt\", \"prompt_ids\", \"messages\"");
  }
  if (json->contains("tools") && !json->contains("messages")) {
    return UsageError(name + ": \"tools\" needs \"messages\"");
  }
  const auto set_prompt = [&]() -> absl::Status {
    if (json->contains("messages")) return SetMessages(text, options, engine, &request);
    if (json->contains("prompt_ids")) {
      if (!options.context.empty()) {
        return UsageError(
            "--context does not go with \"prompt_ids\"; \"context_tokens\" says how "
            "many of them are the context");
      }
      NG_ASSIGN_OR_RETURN(request.prompt_ids, IdsOf((*json)["prompt_ids"]));
      return absl::OkStatus();
    }
    if (!(*json)["prompt"].is_string()) return UsageError("\"prompt\" must be a text");
    return SetText((*json)["prompt"].get<std::string>(), false, options, engine, &request);
  };
  NG_RETURN_IF_ERROR(Annotate(set_prompt(), name + ": "));
  NG_RETURN_IF_ERROR(Annotate(SetNumbers(*json, &request), name + ": "));
  const bool answers = json->contains("messages") && !json->contains("max_new_tokens");
  return Annotate(Add(std::move(request), answers, options, engine, read), name + ": ");
}

absl::StatusOr<PromptRequests> ReadPromptsFile(const PromptOptions& options, const Engine& engine,
                                               const std::atomic<bool>* stop) {
  NG_ASSIGN_OR_RETURN(const std::string text, ReadUserFile(PathOf(*options.prompts), stop));
  PromptRequests read;
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  const auto is_blank = [](absl::string_view text) {
    return absl::StripAsciiWhitespace(text).empty();
  };
  const auto n_prompts = std::ssize(lines) - std::ranges::count_if(lines, is_blank);
  if (n_prompts == 0) return UsageError(*options.prompts + ": holds no prompt");
  if (!options.save_cache.empty() && n_prompts > 1) {
    return UsageError(
        absl::StrCat(*options.prompts, ": holds ", n_prompts, " prompts, --save-cache takes one"));
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (is_blank(lines[i])) continue;
    const std::string name = absl::StrCat(*options.prompts, ":", i + 1);
    NG_RETURN_IF_ERROR(AddLine({lines[i].data(), lines[i].size()}, name, options, engine, &read));
  }
  return read;
}

// Each of these by itself: a message where the model has a chat template, else a text to complete.
absl::StatusOr<PromptRequests> RequestsOf(const std::vector<std::string>& texts,
                                          const PromptOptions& options, const Engine& engine) {
  if (!options.save_cache.empty() && texts.size() > 1) {
    return UsageError(absl::StrCat(texts.size(), " texts are given, --save-cache takes one"));
  }
  PromptRequests read;
  const bool answers = engine.has_chat_template();
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string name = texts.size() == 1 ? "the text" : absl::StrCat("text ", i + 1);
    if (texts[i].empty()) return UsageError(name + " is empty");
    GenerateRequest request = NewRequest(options, engine);
    const absl::Status set = SetText(texts[i], answers, options, engine, &request);
    NG_RETURN_IF_ERROR(Annotate(set, name + ": "));
    const absl::Status added = Add(std::move(request), answers, options, engine, &read);
    if (!added.ok()) return Annotate(added, texts.size() == 1 ? "" : name + ": ");
  }
  return read;
}

// Something that a text was put into.
enum class StdinKind { kNothing, kPipe, kFile };
StdinKind KindOfStdin() {
  struct stat status = {};
  if (fstat(STDIN_FILENO, &status) != 0) return StdinKind::kNothing;
  return S_ISFIFO(status.st_mode)  ? StdinKind::kPipe
         : S_ISREG(status.st_mode) ? StdinKind::kFile
                                   : StdinKind::kNothing;
}

// What is on stdin, without its last line's end.
absl::StatusOr<std::string> StdinText(const Engine& engine, const std::atomic<bool>* stop) {
  NG_ASSIGN_OR_RETURN(std::string text, ReadUserFile(kStdin, stop, engine.max_prompt_bytes()));
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

// Whether stdin is there for the one text of the command line. A file from which somebody else has
// read is that one's, such as a loop of a shell. A pipe in which nothing comes for a second may be
// one that was handed down and never ends.
bool StdinIsForText(std::string* warning) {
  constexpr int kSilentMs = 1000;
  switch (KindOfStdin()) {
    case StdinKind::kNothing:
      return false;
    case StdinKind::kFile:
      return lseek(STDIN_FILENO, 0, SEEK_CUR) == 0;
    case StdinKind::kPipe:
      break;
  }
  if (WaitForInput(STDIN_FILENO, kSilentMs)) return true;
  *warning = "stdin is open and nothing comes, so it is not read; with - it is waited for";
  return false;
}

// The texts of the command line with what is on stdin. A "-" says where that stands, and then all
// are one text with empty lines between them; where there is one text and no "-", it stands before.
absl::StatusOr<std::vector<std::string>> WithStdin(const PromptOptions& options,
                                                   const Engine& engine,
                                                   const std::atomic<bool>* stop,
                                                   std::string* warning) {
  std::vector<std::string> texts = options.texts;
  const bool dash = std::ranges::count(texts, kDash) != 0;
  const bool joins = dash || (texts.size() == 1 && options.reads_pipe && StdinIsForText(warning));
  if (!joins) return texts;
  NG_ASSIGN_OR_RETURN(const std::string text, StdinText(engine, stop));
  if (!dash) texts.insert(texts.begin(), std::string(kDash));
  std::string all;
  for (const std::string& one : texts) {
    const std::string& part = one == kDash ? text : one;
    if (!part.empty()) absl::StrAppend(&all, all.empty() ? "" : "\n\n", part);
  }
  return std::vector<std::string>{std::move(all)};
}

// Whether a text waits on stdin that is nobody else's, as StdinIsForText has it.
bool StdinHoldsText() {
  const StdinKind kind = KindOfStdin();
  const bool begun = kind == StdinKind::kFile && lseek(STDIN_FILENO, 0, SEEK_CUR) != 0;
  int n_bytes = 0;
  return kind != StdinKind::kNothing && !begun && ioctl(STDIN_FILENO, FIONREAD, &n_bytes) == 0 &&
         n_bytes > 0;
}

// A text on stdin that the options leave alone; empty: there is none.
std::string WarningOfUnread(const PromptOptions& options) {
  const bool several = options.texts.size() > 1;
  const char* const option = options.prompt        ? "--prompt"
                             : options.prompt_file ? "--prompt-file"
                             : options.prompt_ids  ? "--prompt-ids"
                             : options.prompts     ? "--prompts"
                             : options.message     ? "--message"
                                                   : nullptr;
  if (!options.reads_pipe || (option == nullptr && !several) || !StdinHoldsText()) return "";
  std::error_code failed;
  for (const auto& file : {options.prompt_file, options.prompts}) {
    if (file && std::filesystem::equivalent(PathOf(*file), kStdin, failed)) return "";
  }
  if (option == nullptr) {
    return std::ranges::count(options.texts, kDash) != 0
               ? ""
               : "stdin is not read, because several texts are given; a - says where it stands";
  }
  return absl::StrCat("stdin is not read, because ", option,
                      " is given; it is joined with a text that has no option");
}

absl::StatusOr<PromptRequests> ReadWithoutWarning(const PromptOptions& options,
                                                  const Engine& engine,
                                                  const std::atomic<bool>* stop) {
  if (options.prompts) return ReadPromptsFile(options, engine, stop);
  if (!options.texts.empty()) {
    std::string warning;
    NG_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                        WithStdin(options, engine, stop, &warning));
    NG_ASSIGN_OR_RETURN(PromptRequests read, RequestsOf(texts, options, engine));
    read.warning = std::move(warning);
    return read;
  }
  GenerateRequest request = NewRequest(options, engine);
  if (options.prompt) {
    NG_RETURN_IF_ERROR(SetText(*options.prompt, false, options, engine, &request));
  } else if (options.prompt_file) {
    NG_ASSIGN_OR_RETURN(const std::string text, ReadUserFile(PathOf(*options.prompt_file), stop,
                                                             engine.max_prompt_bytes()));
    NG_RETURN_IF_ERROR(
        Annotate(SetText(text, false, options, engine, &request), *options.prompt_file + ": "));
    if (request.prompt_ids.empty()) {
      return UsageError(*options.prompt_file + ": the prompt is empty");
    }
  } else if (options.prompt_ids) {
    NG_ASSIGN_OR_RETURN(request.prompt_ids, ParseTokenIds(*options.prompt_ids, "--prompt-ids"));
  } else if (options.message) {
    if (options.message->empty()) return UsageError("--message is empty");
    NG_RETURN_IF_ERROR(SetText(*options.message, true, options, engine, &request));
  } else if (!options.reads_pipe || KindOfStdin() == StdinKind::kNothing) {
    return PromptRequests();
  } else {
    NG_ASSIGN_OR_RETURN(std::string piped, StdinText(engine, stop));
    if (piped.empty()) return PromptRequests();
    return RequestsOf({std::move(piped)}, options, engine);
  }
  PromptRequests read;
  NG_RETURN_IF_ERROR(Add(std::move(request), options.message.has_value(), options, engine, &read));
  return read;
}

}  // namespace

absl::StatusOr<PromptRequests> ReadRequests(const PromptOptions& options, const Engine& engine,
                                            const std::atomic<bool>* stop) {
  PromptOptions with = options;
  if (!with.context_file.empty()) {
    NG_ASSIGN_OR_RETURN(with.context,
                        ReadUserFile(PathOf(with.context_file), stop, engine.max_prompt_bytes()));
    if (with.context.empty()) return UsageError(with.context_file + ": the context is empty");
  }
  NG_ASSIGN_OR_RETURN(PromptRequests read, ReadWithoutWarning(with, engine, stop));
  if (read.warning.empty()) read.warning = WarningOfUnread(options);
  return read;
}

absl::Status ReadTools(const Engine& engine, const std::atomic<bool>* stop,
                       PromptOptions* options) {
  if (options->tools_file.empty()) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(options->tools, ReadUserFile(options->tools_file, stop));
  const absl::Status taken = engine.EncodeMessage("?", options->tools).status();
  const bool is_about_them = absl::StartsWith(taken.message(), "tools: ");
  return is_about_them ? Annotate(taken, options->tools_file + ": ") : absl::OkStatus();
}

}  // namespace ng
