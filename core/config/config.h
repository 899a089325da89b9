// How a Config is made: entries from files and the command line, keys from the engine's table and
// the plugins, and the strict pass that brings both together.
//
// Called by the engine when it opens, in two passes: LookupEarly finds the plugins, then MakeConfig
// checks every entry against the engine's keys and the plugins' options. Every error is one line
// that names file:line or the command line argument, the value found and what is allowed.
#ifndef NG_CORE_CONFIG_CONFIG_H_
#define NG_CORE_CONFIG_CONFIG_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/config.h"
#include "ng/option.h"
#include "ng/status.h"

namespace ng {

// A key and its raw text, before any checking.
struct ConfigEntry {
  std::string key;
  std::string text;
  ConfigOrigin origin;
  std::string spelling = {};  // another program's name for the key, as typed (ng/spellings.h)
};

// The engine's own keys, in the order in which --help lists them.
std::span<const ConfigKey> CoreConfigKeys();

// The key of a variable of the chat template, run.template.<name>. Nothing for any other key.
std::optional<ConfigKey> TemplateVariableKey(std::string_view key);

// The keys with those of each section together. Sections are in the order of their first keys; the
// keys of a section keep their order.
std::vector<ConfigKey> GroupedBySection(std::span<const ConfigKey> keys);

// Reads an INI file into entries, in file order:
//
//   [section]            # keys below are section.key; a key may itself be dotted
//   key = value          # blanks around both are dropped; the value may be empty
//   key = "a \"# b\"\n"   # quoted: blanks and '#' belong to the value, escapes are those of C
//
// A '#' at the start of a line or after a blank begins a comment; elsewhere outside quotes it is an
// error, so that no value is ever cut short. LF and CRLF line ends. Time is linear in the file.
// Errors: UsageError with file:line for anything else: a BOM, control characters, ';' comments, a
// key outside a section, a key that is given twice (both lines are named). UsageError without a
// line when the file cannot be read, is not a regular file or is larger than 4 MiB.
absl::StatusOr<std::vector<ConfigEntry>> ReadIniFile(const std::string& path);

// The same for text in memory. Errors and origins name `file`.
absl::StatusOr<std::vector<ConfigEntry>> ParseIni(std::string_view text, const std::string& file);

// Splits "section.key=value" overrides into entries; another program's name for the key may stand
// in its place. The value is taken as it is: no comments, no quotes, no trimming. Errors:
// UsageError, also for what means something else elsewhere.
absl::StatusOr<std::vector<ConfigEntry>> ParseOverrides(std::span<const std::string> overrides);

// Where the entry's key is another program's name for one: gives it ng's. Errors: UsageError.
absl::Status SpellOut(ConfigEntry* entry);

// Brings the stages into the sampler chain that such names ask for, in the order of the entries: a
// chain that is named later is taken as it is.
void JoinStages(std::vector<ConfigEntry>* entries);

// The text of one core key from the same layers, before the strict pass. The plugins' names and
// folders are found in this way. Paths are resolved as in Config::Text; SplitNames splits lists.
// Errors: a bad value of this key. REQUIRES: `key` is one of CoreConfigKeys().
absl::StatusOr<std::string> LookupEarly(std::span<const ConfigEntry> entries, std::string_view key);

// Splits comma-separated names and drops the blanks around them. An empty text has no names.
std::vector<std::string> SplitNames(std::string_view text);

// Checks every entry against `keys` (core keys and the plugins' own) and fills in defaults. If a
// key has several entries, the last one wins, and all are checked. Errors: UsageError naming
// file:line, key, value found, what is allowed; for an unknown key the nearest known one.
// PluginError when a key is declared twice or its default breaks its own rule.
absl::StatusOr<Config> MakeConfig(std::span<const ConfigEntry> entries,
                                  std::span<const ConfigKey> keys);

// The values of one plugin's options, named without the <kind>.<plugin>. prefix, in declaration
// order. Lists are borrowed from the Config.
std::vector<OptionValue> PluginValues(const Config& config, std::string_view kind,
                                      std::string_view plugin);

// The choice that a text probably means: the text is another program's word for it, or a similar
// name. `choices` are separated by '|'.
std::optional<std::string> NearestChoice(std::string_view text, std::string_view choices);

}  // namespace ng

#endif  // NG_CORE_CONFIG_CONFIG_H_
