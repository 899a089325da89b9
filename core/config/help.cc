#include "core/config/help.h"

#include <string_view>
#include <vector>

#include "core/config/text.h"
#include "core/config/value.h"
#include "ng/key_help.h"

namespace ng {
namespace {

constexpr size_t kColumns = 80;

// The words of `text`, each line indented.
std::string Wrapped(std::string_view text, size_t indent) {
  std::string lines;
  size_t column = kColumns;  // full: the first word begins a line
  for (const std::string_view word : SplitTrimmed(text, " \t\r\n")) {
    if (word.empty()) continue;
    if (column + 1 + word.size() > kColumns) {
      if (!lines.empty()) lines += '\n';
      lines.append(indent, ' ');
      column = indent;
    } else {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines + "\n";
}

std::string Entry(const ConfigKey& key) {
  const char* help = key.spec->help == nullptr ? "" : key.spec->help;
  const auto [value, allowed] = HelpOf(key);
  return Cat("  ", key.key, value.empty() ? " =" : " = ", value, "\n",
             Wrapped(Cat(help, " (", allowed, ")"), 6));
}

}  // namespace

KeyHelp HelpOf(const ConfigKey& key) {
  return {.default_value = IniValue(DefaultEntry(key).text), .allowed = AllowedValues(key)};
}

std::string Config::Help() const {
  std::vector<ConfigKey> keys;
  for (const ConfigItem& item : items_) keys.push_back(item.declared);
  return FormatOptionHelp(keys);
}

std::string FormatOptionHelp(std::span<const ConfigKey> keys) {
  std::string help;
  std::string_view section;
  const std::vector<ConfigKey> grouped = GroupedBySection(keys);
  for (const ConfigKey& key : grouped) {
    if (SectionOf(key.key) != section) {
      section = SectionOf(key.key);
      help += Cat(help.empty() ? "[" : "\n[", section, "]\n");
    }
    help += Entry(key);
  }
  return help;
}

}  // namespace ng
