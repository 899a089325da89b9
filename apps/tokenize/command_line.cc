#include "apps/tokenize/command_line.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/names.h"

namespace ng::tokenize {
namespace {

using Action = CommandLine::Action;

constexpr std::string_view kTokenizer = "--tokenizer";

struct Switch {
  std::string_view name;
  Action action;
};

// If several are given, the one that is later in this table wins.
constexpr Switch kSwitches[] = {{"--jsonl", Action::kEncodeLines},
                                {"--decode", Action::kDecodeLines},
                                {"--version", Action::kVersion},
                                {"--help", Action::kHelp}};

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

absl::Status UnknownArgument(std::string_view argument) {
  if (!argument.starts_with('-')) {
    return UsageError(
        absl::StrCat("argument \"", View(argument), "\": the text is read from stdin, see --help"));
  }
  std::vector<std::string> names = {std::string(kTokenizer)};
  for (const Switch& known : kSwitches) names.emplace_back(known.name);
  const std::optional<std::string> nearest = NearestName(argument, names);
  return UsageError(absl::StrCat("unknown option \"", View(argument), "\"",
                                 nearest ? "; did you mean " + *nearest + "?" : ", see --help"));
}

// The value of --tokenizer at position `*i`; nullopt where this is another option. `*i` moves on
// when the value is the next argument.
absl::StatusOr<std::optional<std::string>> TokenizerValue(std::span<const char* const> arguments,
                                                          size_t* i) {
  const std::string_view argument = arguments[*i];
  std::string_view value;
  if (argument == kTokenizer) {
    if (*i + 1 < arguments.size()) value = arguments[++*i];
  } else if (argument.starts_with(kTokenizer) && argument[kTokenizer.size()] == '=') {
    value = argument.substr(kTokenizer.size() + 1);
  } else {
    return std::nullopt;
  }
  if (value.empty()) return UsageError("--tokenizer needs a path");
  return std::string(value);
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  const std::span<const char* const> arguments(argv + 1, argv + argc);
  CommandLine parsed;
  for (size_t i = 0; i < arguments.size(); ++i) {
    NG_ASSIGN_OR_RETURN(std::optional<std::string> path, TokenizerValue(arguments, &i));
    if (path) {
      if (!parsed.tokenizer.empty()) return UsageError("--tokenizer is given twice");
      parsed.tokenizer = *std::move(path);
      continue;
    }
    const std::string_view argument = arguments[i];
    const Switch* found = std::ranges::find(kSwitches, argument, &Switch::name);
    if (found == std::end(kSwitches)) return UnknownArgument(argument);
    parsed.action = std::max(parsed.action, found->action);
  }
  const bool needs_tokenizer = parsed.action != Action::kHelp && parsed.action != Action::kVersion;
  if (needs_tokenizer && parsed.tokenizer.empty()) {
    return UsageError("--tokenizer PATH is missing, see --help");
  }
  return parsed;
}

std::string UsageText() {
  return "usage: ng-tokenize --tokenizer PATH [--jsonl | --decode] < INPUT\n"
         "\n"
         "Encodes text as the tokenizer's reference implementation does; SentencePiece\n"
         "user-defined symbols are always parsed.\n"
         "\n"
         "  --tokenizer PATH  a SentencePiece .model file, a tokenizer.json, a meta.pkl,\n"
         "                    a GGUF file, or a folder with one of the first three (no option\n"
         "                    below: all of stdin is one text, its ids come out on one line)\n"
         "  --jsonl           a line {\"text\", \"parse_special\", \"add_special\"} gives a line\n"
         "                    {\"ids\", \"decoded\"}; both flags are optional and false\n"
         "  --decode          a line {\"ids\"} gives a line {\"text\"}\n"
         "                    (other keys of a line are ignored)\n"
         "  --help            this text\n"
         "  --version         the version\n"
         "\n"
         "Exit codes: 0 done, 1 a run-time failure, 2 usage or input, 3 tokenizer file,\n"
         "5 out of memory, 7 stdout cannot be written.\n";
}

}  // namespace ng::tokenize
