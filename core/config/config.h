// The effective configuration: every key with its value and where the value came from.
//
// There are three layers: the key's default, the config file, the command line. The later layer
// wins. Keys are dotted ("run.max_new_tokens"); a plugin's option is <kind>.<plugin>.<option>.
//
// Called by the engine when it opens, in two passes: LookupEarly finds the plugins, then
// Config::Build checks every entry against the engine's keys and the plugins' options. A Config is
// immutable and may be read from any thread. Every error is one line that names file:line or the
// command line argument, the value found and what is allowed.
#ifndef NG_CORE_CONFIG_CONFIG_H_
#define NG_CORE_CONFIG_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/option.h"
#include "ng/status.h"

namespace ng {

// Where a value came from. `file` is empty for defaults and the command line.
struct ConfigOrigin {
  enum class Kind { kDefault, kFile, kCommandLine } kind = Kind::kDefault;
  std::string file;
  int line = 0;

  std::string ToString() const;  // "default", "demo.ini:12", "command line"
};

// A key and its raw text, before any checking.
struct ConfigEntry {
  std::string key;
  std::string text;
  ConfigOrigin origin;
};

// What a value means beyond its type.
enum class ConfigForm {
  kPlain,
  kPath,        // kText: a path, made absolute; in a file, relative to that file's folder
  kPathList,    // kText: several paths separated by ':' or ','; stored absolute, with commas
  kNames,       // kText: one or more names separated by commas
  kListOrAuto,  // kIntList: a list, or the word "auto", which gives an empty list
};

// One declared key. REQUIRES: `key` has a dot.
struct ConfigKey {
  std::string key;                   // dotted: run.threads, sampler.top_k.k
  const OptionSpec* spec = nullptr;  // borrowed: the core table, or a plugin's
  ConfigForm form = ConfigForm::kPlain;
};

// The engine's own keys, in the order in which --help lists them.
std::span<const ConfigKey> CoreConfigKeys();

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

// Splits "section.key=value" overrides into entries. The value is taken as it is: no comments, no
// quotes, no trimming. Errors: UsageError.
absl::StatusOr<std::vector<ConfigEntry>> ParseOverrides(std::span<const std::string> overrides);

// The text of one core key from the same layers, before the strict pass. The plugins' names and
// folders are found in this way. Paths are resolved as in Config::Text; SplitNames splits lists.
// Errors: a bad value of this key. REQUIRES: `key` is one of CoreConfigKeys().
absl::StatusOr<std::string> LookupEarly(std::span<const ConfigEntry> entries, std::string_view key);

// Splits comma-separated names and drops the blanks around them. An empty text has no names.
std::vector<std::string> SplitNames(std::string_view text);

class Config {
 public:
  // Checks every entry against `keys` (core keys and the plugins' own) and fills in defaults. If a
  // key has several entries, the last one wins, and all are checked. Errors: UsageError naming
  // file:line, key, value found, what is allowed; for an unknown key the nearest known one.
  // PluginError when a key is declared twice or its default breaks its own rule.
  static absl::StatusOr<Config> Build(std::span<const ConfigEntry> entries,
                                      std::span<const ConfigKey> keys);

  // REQUIRES: the key is declared with this type; anything else is a bug of the caller and throws
  // std::logic_error (here and below). Returned references live as long as the Config.
  bool Bool(std::string_view key) const;
  int64_t Int(std::string_view key) const;
  double Real(std::string_view key) const;
  std::span<const int64_t> IntList(std::string_view key) const;
  // The value as text, for a key of any type. Paths are absolute.
  const std::string& Text(std::string_view key) const;
  // The text split by SplitNames: sampler.chain, plugins.path.
  std::vector<std::string> Names(std::string_view key) const;

  const ConfigOrigin& Origin(std::string_view key) const;
  bool IsDefault(std::string_view key) const;
  // Errors about a value begin with this: "demo.ini:12: run.max_new_tokens", or the key alone.
  std::string Describe(std::string_view key) const;

  // The values of one plugin's options, named without the <kind>.<plugin>. prefix, in declaration
  // order. Lists are borrowed from the Config.
  std::vector<OptionValue> PluginValues(std::string_view kind, std::string_view plugin) const;

  // An INI file that gives the same run: every key, sections and keys in declaration order.
  std::string ToIni() const;
  // One line per key, in the same order: "key = value  (origin)".
  std::string ToAnnotated() const;

 private:
  struct Item {
    ConfigKey declared;
    OptionValue value;
    std::shared_ptr<const void> list;  // holds what value.items points to; copies share it
    ConfigOrigin origin;
  };
  const Item& Find(std::string_view key) const;
  const Item& Find(std::string_view key, OptionType type) const;

  std::vector<Item> items_;                           // ordered as by GroupedBySection
  std::map<std::string, size_t, std::less<>> index_;  // key -> its place in items_
};

// The choice that a text probably means: the text is another program's word for it, or a similar
// name. `choices` are separated by '|'.
std::optional<std::string> NearestChoice(std::string_view text, std::string_view choices);

}  // namespace ng

#endif  // NG_CORE_CONFIG_CONFIG_H_
