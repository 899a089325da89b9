#include "apps/tokenize/command_line.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/names.h"

namespace ng::tokenize {
namespace {

using Action = CommandLine::Action;

struct Switch {
  std::string_view name;
  Action action;
};

constexpr Switch kSwitches[] = {{"--jsonl", Action::kEncodeLines},
                                {"--decode", Action::kDecodeLines}};

struct Question {
  std::string_view name;
  bool About::*asked;
};
constexpr Question kQuestions[] = {
    {"--quiet", &About::quiet},     {"-q", &About::quiet},
    {"--verbose", &About::verbose}, {"-v", &About::verbose},
    {"-h", &About::help},           {"--version", &About::version},
    {"--help", &About::help},       {"--man-page", &About::man_page}};

constexpr std::string_view kTokenizer = "--tokenizer";
// Those of a chat template.
struct ChatSwitch {
  std::string_view name;
  bool CommandLine::*given;
};
constexpr ChatSwitch kChatSwitches[] = {{"--render", &CommandLine::render},
                                        {"--calls", &CommandLine::calls}};

constexpr std::string_view kVariable = "--template.";  // and its name

// The options that have a value, and where it goes.
struct Valued {
  std::string_view name;
  std::string_view needs;  // what the value is
  std::string* value;
};
std::vector<Valued> ValuedOptions(CommandLine& line) {
  return {{kTokenizer, "a path", &line.tokenizer},
          {"-m", "a path", &line.tokenizer},
          {"--chat", "a file name", &line.chat},
          {"--tools", "a file name", &line.tools},
          {"--template", "a file or a name", &line.template_options.chat_template},
          {"--date", "a date", &line.template_options.date},
          {"--completion", "a shell", &line.about.completion}};
}

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

absl::Status UnknownArgument(std::string_view argument) {
  if (!argument.starts_with('-')) {
    return UsageError(
        absl::StrCat("argument \"", View(argument), "\": the text is read from stdin, see --help"));
  }
  std::vector<std::string> names;
  CommandLine line;
  for (const ChatSwitch& known : kChatSwitches) names.emplace_back(known.name);
  for (const Valued& option : ValuedOptions(line)) names.emplace_back(option.name);
  for (const Switch& known : kSwitches) names.emplace_back(known.name);
  for (const Question& question : kQuestions) names.emplace_back(question.name);
  const std::optional<std::string> nearest = NearestName(argument, names);
  return UsageError(absl::StrCat("unknown option \"", View(argument), "\"",
                                 nearest ? "; did you mean " + *nearest + "?" : ", see --help"));
}

// Reads the option at position `*i`, if it is one with a value; false: it is another option. `*i`
// moves on when the value is the next argument.
absl::StatusOr<bool> ReadValued(std::span<const char* const> arguments, size_t* i,
                                std::set<std::string_view>* given, CommandLine* line) {
  const std::string_view argument = arguments[*i];
  const std::string_view name = argument.substr(0, argument.find('='));
  const std::vector<Valued> options = ValuedOptions(*line);
  const auto option = std::ranges::find(options, name, &Valued::name);
  if (option == options.end()) return false;
  std::string_view value;
  if (name.size() < argument.size()) {
    value = argument.substr(name.size() + 1);
  } else if (*i + 1 < arguments.size()) {
    value = arguments[++*i];
  }
  if (value.empty()) return UsageError(absl::StrCat(View(name), " needs ", View(option->needs)));
  if (!given->insert(option->name).second) {
    return UsageError(absl::StrCat(View(name), " is given twice"));
  }
  *option->value = value;
  return true;
}

// --template.NAME=VALUE
absl::Status ReadVariable(std::string_view argument, CommandLine* line) {
  argument.remove_prefix(kVariable.size());
  const size_t equals = argument.find('=');
  if (equals == 0 || equals == argument.npos) {
    return UsageError(
        absl::StrCat("--template.", View(argument), ": must be --template.NAME=VALUE"));
  }
  line->template_options.variables.emplace_back(argument.substr(0, equals),
                                                argument.substr(equals + 1));
  return absl::OkStatus();
}

absl::Status CheckTogether(const CommandLine& line, const std::set<std::string_view>& given) {
  if (!line.about.asked() && line.tokenizer.empty()) {
    return UsageError("--tokenizer PATH is missing, or MODEL in its place, see --help");
  }
  if (!line.chat.empty()) {
    return line.render && line.calls ? UsageError("--render and --calls: one of them at a time")
                                     : absl::OkStatus();
  }
  if (line.render) return UsageError("--render needs --chat FILE");
  if (line.calls) return absl::OkStatus();
  constexpr absl::string_view kNeeds = " needs --chat FILE or --calls";
  for (const std::string_view option : {"--tools", "--template", "--date"}) {
    if (given.contains(option)) return UsageError(absl::StrCat(View(option), kNeeds));
  }
  if (line.template_options.variables.empty()) return absl::OkStatus();
  return UsageError(
      absl::StrCat(View(kVariable), line.template_options.variables[0].first, kNeeds));
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  const std::span<const char* const> arguments(argv + 1, argv + argc);
  CommandLine parsed;
  std::set<std::string_view> given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument.starts_with(kVariable)) {
      NG_RETURN_IF_ERROR(ReadVariable(argument, &parsed));
      continue;
    }
    NG_ASSIGN_OR_RETURN(const bool was_valued, ReadValued(arguments, &i, &given, &parsed));
    if (was_valued) continue;
    const ChatSwitch* chat = std::ranges::find(kChatSwitches, argument, &ChatSwitch::name);
    if (chat != std::end(kChatSwitches)) {
      parsed.*chat->given = true;
      continue;
    }
    const Question* question = std::ranges::find(kQuestions, argument, &Question::name);
    if (question != std::end(kQuestions)) {
      parsed.about.*question->asked = true;
      continue;
    }
    if (!argument.starts_with('-') && parsed.tokenizer.empty()) {
      parsed.tokenizer = argument;
      given.insert(kTokenizer);
      continue;
    }
    const Switch* found = std::ranges::find(kSwitches, argument, &Switch::name);
    if (found == std::end(kSwitches)) return UnknownArgument(argument);
    parsed.action = std::max(parsed.action, found->action);
  }
  if (!parsed.chat.empty()) parsed.action = std::max(parsed.action, Action::kChat);
  if (parsed.calls) parsed.action = std::max(parsed.action, Action::kCalls);
  NG_RETURN_IF_ERROR(CheckTogether(parsed, given));
  return parsed;
}

Manual TheManual() {
  OptionGroup options = {"Options", {}};
  options.options.add_options()  //
      ("tokenizer", TextValue("PATH"),
       "a SentencePiece .model file, a tokenizer.json, a meta.pkl, a GGUF file, or a folder with "
       "one "
       "of the first three; without another option all of stdin is one text, and its ids come out "
       "on one line")  //
      ("jsonl",
       "a line {\"text\", \"parse_special\", \"add_special\"} gives a line {\"ids\", "
       "\"decoded\"}; both flags are optional and false")  //
      ("decode",
       "a line {\"ids\"} gives a line {\"text\"}; other keys of a line are ignored")  //
      ("chat", TextValue("FILE"),
       "a conversation, a list of {\"role\", \"content\"}: its ids by the model's chat template, "
       "up to where an answer begins")                  //
      ("render", "with --chat: its text, not its ids")  //
      ("calls",
       "how the model writes calls of tools and thoughts, as JSON; with an answer on stdin: its "
       "content, thoughts and calls. --chat names the conversation that it answers")          //
      ("tools", TextValue("FILE"), "with --chat or --calls: what the model may call")         //
      ("template", TextValue("FILE"), "with these: another chat template, a file or a name")  //
      ("template.NAME", TextValue("VALUE"), "with these: a variable of the template")         //
      ("date", TextValue("DATE"), "with these: today for the template, 2026-11-22");
  return {.program = "ng-tokenize",
          .summary = "turn text to token ids and back",
          .uses = {"ng-tokenize MODEL [--jsonl | --decode] < INPUT",
                   "ng-tokenize MODEL --chat FILE.json [--render]",
                   "ng-tokenize MODEL --calls [--chat FILE.json] [< ANSWER]"},
          .notes = {"MODEL is what --tokenizer PATH names.",
                    "Encodes text as the tokenizer's reference implementation does; SentencePiece "
                    "user-defined symbols are always parsed."},
          .examples = {"echo -n \"Who art thou?\" | ng-tokenize tokenizer.json"},
          .groups = {options, AboutOptions()},
          .keys = ConfigKeys::kNone};
}

}  // namespace ng::tokenize
