#include "apps/run/chat/commands.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/common/columns.h"
#include "apps/common/known_parts.h"
#include "apps/run/chat/user_path.h"
#include "ng/config.h"
#include "ng/names.h"

namespace ng::run {
namespace {

using Takes = ChatCommand::Takes;

constexpr ChatCommand kCommands[] = {
    {"/help", "/?", Takes::kNothing, "", "these lines", &Session::Help},
    {"/new", "/clear", Takes::kNothing, "", "begins another conversation", &Session::New},
    {"/undo", "", Takes::kNothing, "", "takes the last message and its answer back",
     &Session::Undo},
    {"/regen", "/retry", Takes::kMaybe, "[SEED]", "answers again, with the next seed or this one",
     &Session::Regenerate},
    {"/more", "", Takes::kNothing, "", "goes on with an answer that was cut or stopped",
     &Session::More},
    {"/edit", "", Takes::kNothing, "", "changes the last message", &Session::Edit},
    {"/system", "", Takes::kMaybe, "[TEXT]", "shows or sets the system text; -: none",
     &Session::System},
    {"/set", "", Takes::kMaybe, "[KEY VALUE]", "shows what can change, or changes it",
     &Session::Set},
    {"/model", "", Takes::kMaybe, "", "the model, its context and the sampling", &Session::Model},
    {"/think", "", Takes::kNothing, "", "shows thoughts, or folds them to one line",
     &Session::Think},
    {"/stats", "", Takes::kNothing, "", "what this chat has done", &Session::Stats},
    {"/save", "", Takes::kFile, "FILE", "writes the conversation", &Session::Save},
    {"/load", "", Takes::kFile, "FILE", "goes on with a saved conversation", &Session::Load},
    {"/exit", "/quit /bye /q", Takes::kNothing, "", "ends; so does Ctrl-D", &Session::Exit},
};

// All names, the first one first.
std::vector<std::string> NamesOf(const ChatCommand& command) {
  std::vector<std::string> names = absl::StrSplit(command.also, ' ', absl::SkipEmpty());
  names.insert(names.begin(), command.name);
  return names;
}

constexpr std::string_view kWordEnds = " \t\r\n";

struct CommandParts {
  std::string name;
  std::string argument;  // without the blanks around it
};

CommandParts PartsOf(std::string_view typed) {
  const size_t end = std::min(typed.find_first_of(kWordEnds), typed.size());
  CommandParts parts = {std::string(typed.substr(0, end)), {}};
  const size_t begin = typed.find_first_not_of(kWordEnds, end);
  if (begin == typed.npos) return parts;
  parts.argument = typed.substr(begin, typed.find_last_not_of(kWordEnds) + 1 - begin);
  return parts;
}

const ChatCommand* FindCommand(std::string_view typed) {
  const std::string name = absl::AsciiStrToLower({typed.data(), typed.size()});
  const auto* const found = std::ranges::find_if(kCommands, [&](const ChatCommand& command) {
    return std::ranges::count(NamesOf(command), name) != 0;
  });
  return found == std::end(kCommands) ? nullptr : found;
}

// A command that begins so is nearer than one that is spelled nearly so.
std::optional<std::string> NearestCommand(const std::string& typed) {
  const std::string name = absl::AsciiStrToLower(typed);
  std::vector<std::string> names;
  for (const ChatCommand& command : kCommands) {
    if (name.size() > 1 && std::string_view(command.name).starts_with(name)) return command.name;
    std::ranges::copy(NamesOf(command), std::back_inserter(names));
  }
  return NearestName(name, names);
}

absl::Status UnknownCommand(const std::string& name) {
  const std::optional<std::string> nearest = NearestCommand(name);
  return UsageError(absl::StrCat("no command ", name, nearest ? "; did you mean " + *nearest : "",
                                 "; /help lists them, and // begins a message with a /"));
}

// The name of a file as it is typed: quotes around it do not belong to it.
std::string FileIn(const std::string& argument) {
  const char quote = argument.front();
  const bool quoted =
      argument.size() > 2 && (quote == '"' || quote == '\'') && argument.ends_with(quote);
  return quoted ? argument.substr(1, argument.size() - 2) : argument;
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

// The same of what is typed behind /load; what begins with a quote ends with it.
std::vector<std::string> FileWords(const std::string& typed) {
  if (!typed.starts_with('"') && !typed.starts_with('\'')) return FilesLike(typed);
  std::vector<std::string> files = FilesLike(typed.substr(1));
  for (std::string& file : files) {
    file.insert(0, 1, typed.front());
    if (!file.ends_with('/')) file += typed.front();
  }
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

// What may stand at the end of "KEY=VALUE" or "KEY VALUE": `found` begins at the key.
void CompleteSetting(const std::string& setting, const Engine& engine,
                     std::span<const PluginFile> plugins, Completions* found) {
  const size_t key_end = setting.find_first_of("= ");
  if (key_end == setting.npos) {
    found->words = KeysLike(setting, engine);
    return;
  }
  const std::string key = setting.substr(0, key_end);
  const auto items = engine.config().items();
  const auto item =
      std::ranges::find_if(items, [&](const ConfigItem& one) { return one.declared.key == key; });
  if (item == items.end() || !Engine::CanSet(key)) return;
  ValueWords values = WordsOf(item->declared, plugins);
  // Where there is nothing to choose from, what it is now.
  if (values.words.empty()) values.words = {item->value.text};
  size_t begin = std::min(setting.find_first_not_of(' ', key_end + 1), setting.size());
  if (values.kind == ValueWords::Kind::kListOf) {
    begin = std::max(begin, setting.rfind(',') + 1);
  }
  found->begin += begin;
  const std::string typed = setting.substr(begin);
  for (std::string& word : values.words) {
    if (!word.empty() && word.starts_with(typed)) found->words.push_back(std::move(word));
  }
}

}  // namespace

std::span<const ChatCommand> ChatCommands() { return kCommands; }

bool IsCommand(std::string_view typed) {
  if (!typed.starts_with('/')) return false;
  const std::string_view name = typed.substr(1, typed.find_first_of(kWordEnds) - 1);
  return name == "?" || std::ranges::all_of(name, absl::ascii_isalpha);
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
  const bool file = command->takes == Takes::kFile;
  return (session.*command->run)(file ? FileIn(parts.argument) : parts.argument);
}

std::string CommandHelp(size_t columns) {
  constexpr size_t kLeft = 26;
  std::vector<TextRow> rows;
  for (const ChatCommand& command : kCommands) {
    const std::string names = absl::StrJoin(NamesOf(command), ", ");
    rows.push_back({absl::StrCat(names, " ", command.argument), command.help});
  }
  return absl::StrCat(
      TwoColumns(rows, kLeft, columns),
      Wrapped("Ctrl-C stops an answer. A line that ends with \\ goes on in the next "
              "one.",
              0, columns),
      "\n");
}

Completions CompleteCommand(std::string_view before_cursor, const Engine& engine,
                            std::span<const PluginFile> plugins) {
  Completions found;
  const size_t blank = before_cursor.find(' ');
  if (!before_cursor.starts_with('/')) return found;
  if (blank == before_cursor.npos) {
    for (const ChatCommand& command : kCommands) {
      for (const std::string& name : NamesOf(command)) {
        if (name.starts_with(before_cursor)) found.words.push_back(name);
      }
    }
    return found;
  }
  const ChatCommand* const command = FindCommand(before_cursor.substr(0, blank));
  if (command == nullptr) return found;
  found.begin = std::min(before_cursor.find_first_not_of(' ', blank), before_cursor.size());
  const std::string argument(before_cursor.substr(found.begin));
  if (command->takes == Takes::kFile) found.words = FileWords(argument);
  if (command->run == &Session::Set) CompleteSetting(argument, engine, plugins, &found);
  return found;
}

}  // namespace ng::run
