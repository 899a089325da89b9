#include "apps/run/chat/commands.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/run/chat/user_path.h"
#include "ng/config.h"
#include "ng/names.h"

namespace ng::run {
namespace {

using Takes = ChatCommand::Takes;

constexpr ChatCommand kCommands[] = {
    {"/help", Takes::kNothing, "", "these lines", &Session::Help},
    {"/new", Takes::kNothing, "", "begins another conversation", &Session::New},
    {"/regen", Takes::kMaybe, "[SEED]", "answers again, with the next seed or with this one",
     &Session::Regenerate},
    {"/more", Takes::kNothing, "", "goes on with an answer that was cut or stopped",
     &Session::More},
    {"/edit", Takes::kNothing, "", "changes the last message", &Session::Edit},
    {"/system", Takes::kMaybe, "[TEXT]", "shows or sets the system text; -: none",
     &Session::System},
    {"/set", Takes::kMaybe, "[KEY=VALUE]", "shows what can change, or changes it", &Session::Set},
    {"/think", Takes::kNothing, "", "shows thoughts, or folds them to one line", &Session::Think},
    {"/stats", Takes::kNothing, "", "what this chat has done", &Session::Stats},
    {"/save", Takes::kFile, "FILE", "writes the conversation", &Session::Save},
    {"/load", Takes::kFile, "FILE", "goes on with a saved conversation", &Session::Load},
    {"/exit", Takes::kNothing, "", "ends; so does Ctrl-D", &Session::Exit},
};

struct CommandParts {
  std::string name;
  std::string argument;  // without the blanks around it
};

CommandParts PartsOf(std::string_view typed) {
  constexpr std::string_view kBlanks = " \t\n";
  const size_t end = std::min(typed.find_first_of(kBlanks), typed.size());
  CommandParts parts = {std::string(typed.substr(0, end)), {}};
  const size_t begin = typed.find_first_not_of(kBlanks, end);
  if (begin == typed.npos) return parts;
  parts.argument = typed.substr(begin, typed.find_last_not_of(kBlanks) + 1 - begin);
  return parts;
}

const ChatCommand* FindCommand(std::string_view name) {
  const auto* const found = std::ranges::find_if(
      kCommands, [&](const ChatCommand& command) { return name == command.name; });
  return found == std::end(kCommands) ? nullptr : found;
}

absl::Status UnknownCommand(const std::string& name) {
  std::vector<std::string> names;
  for (const ChatCommand& command : kCommands) names.emplace_back(command.name);
  const std::optional<std::string> nearest = NearestName(name, names);
  return UsageError(absl::StrCat("no command ", name, nearest ? "; did you mean " + *nearest : "",
                                 "; /help lists them, and // begins a message with a /"));
}

// Files and folders whose path begins with `typed`.
std::vector<std::string> FilesLike(const std::string& typed) {
  namespace fs = std::filesystem;
  const size_t slash = typed.rfind('/');
  const std::string folder = slash == typed.npos ? "" : typed.substr(0, slash + 1);
  const std::string begin = typed.substr(folder.size());
  std::vector<std::string> files;
  std::error_code error;
  const std::string at = folder.empty() ? "." : UserPath(folder);
  for (fs::directory_iterator entry(at, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool hidden = name.starts_with('.') && !begin.starts_with('.');
    if (hidden || !name.starts_with(begin)) continue;
    std::error_code ignored;
    files.push_back(folder + name + (entry->is_directory(ignored) ? "/" : ""));
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> KeysLike(const std::string& typed, const Engine& engine) {
  std::vector<std::string> keys;
  for (const ConfigItem& item : engine.config().items()) {
    const std::string& key = item.declared.key;
    if (Engine::CanSet(key) && key.starts_with(typed)) keys.push_back(key + "=");
  }
  return keys;
}

}  // namespace

std::span<const ChatCommand> ChatCommands() { return kCommands; }

bool IsCommand(std::string_view typed) {
  return typed.starts_with('/') && !typed.starts_with("//");
}

absl::Status RunCommand(const std::string& typed, Session& session) {
  const CommandParts parts = PartsOf(typed);
  const ChatCommand* const command = FindCommand(parts.name);
  if (command == nullptr) return UnknownCommand(parts.name);
  if (command->takes == Takes::kNothing && !parts.argument.empty()) {
    return UsageError(absl::StrCat(parts.name, " takes nothing, not '", parts.argument, "'"));
  }
  if (command->takes == Takes::kFile && parts.argument.empty()) {
    return UsageError(absl::StrCat(parts.name, " needs the name of a file"));
  }
  return (session.*command->run)(parts.argument);
}

std::string CommandHelp(size_t columns) {
  constexpr size_t kLeft = 20;
  std::string text;
  for (const ChatCommand& command : kCommands) {
    std::string left = absl::StrCat(command.name, " ", command.argument);
    const bool narrow = kLeft + std::string_view(command.help).size() > columns;
    left.resize(narrow ? left.size() : kLeft, ' ');
    absl::StrAppend(&text, left, narrow ? "\n    " : "", command.help, "\n");
  }
  return text + "Ctrl-C stops an answer. A line that ends with \\ goes on in the next one.\n";
}

Completions CompleteCommand(std::string_view before_cursor, const Engine& engine) {
  Completions found;
  const size_t blank = before_cursor.find(' ');
  if (!IsCommand(before_cursor)) return found;
  if (blank == before_cursor.npos) {
    for (const ChatCommand& command : kCommands) {
      if (std::string_view(command.name).starts_with(before_cursor)) {
        found.words.emplace_back(command.name);
      }
    }
    return found;
  }
  const ChatCommand* const command = FindCommand(before_cursor.substr(0, blank));
  if (command == nullptr) return found;
  found.begin = std::min(before_cursor.find_first_not_of(' ', blank), before_cursor.size());
  const std::string argument(before_cursor.substr(found.begin));
  if (command->takes == Takes::kFile) found.words = FilesLike(argument);
  if (command->run == &Session::Set) found.words = KeysLike(argument, engine);
  return found;
}

}  // namespace ng::run
