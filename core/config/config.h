// The effective configuration: every key with its value and where the value came from.
//
// Three layers, the later wins: the key's default, the config file, the command line. Keys are
// dotted ("run.max_new_tokens"); a plugin's option is <kind>.<plugin>.<option>.
#ifndef NG_CORE_CONFIG_CONFIG_H_
#define NG_CORE_CONFIG_CONFIG_H_

#include <cstdint>
#include <map>
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

// One declared key: the spec's name is the full dotted key.
struct ConfigKey {
  std::string key;
  const OptionSpec* spec = nullptr;  // borrowed: the core table, or a plugin's
  bool is_path = false;              // relative values from a file are relative to that file
};

// The keys that are the engine's own, in the order of the design's section 7.
std::span<const ConfigKey> CoreConfigKeys();

// Reads an INI file ([section], key = value, '#' comments) into entries, in file order.
// Errors: UsageError with file:line (unreadable, not key = value, a key twice, a BOM, a ';' comment
// is an error that says so).
absl::StatusOr<std::vector<ConfigEntry>> ReadIniFile(const std::string& path);

// Splits "section.key=value" overrides into entries. Errors: UsageError.
absl::StatusOr<std::vector<ConfigEntry>> ParseOverrides(std::span<const std::string> overrides);

// The raw text of one core key by the same layering, before the strict pass: how the plugin names
// and directories are found. Paths are resolved as in Config::Text. Errors: a bad value of this
// key.
absl::StatusOr<std::string> LookupEarly(std::span<const ConfigEntry> entries, std::string_view key);

class Config {
 public:
  // Checks every entry against `keys` (core keys and the plugins' own) and fills in defaults.
  // Errors: UsageError naming file:line, key, value found, what is allowed; for an unknown key the
  // nearest known one.
  static absl::StatusOr<Config> Build(std::span<const ConfigEntry> entries,
                                      std::span<const ConfigKey> keys);

  // REQUIRES: the key is declared with this type.
  bool Bool(std::string_view key) const;
  int64_t Int(std::string_view key) const;
  double Real(std::string_view key) const;
  const std::string& Text(std::string_view key) const;  // paths are absolute
  std::span<const int64_t> IntList(std::string_view key) const;
  // Comma-separated names, blanks trimmed: sampler.chain.
  std::vector<std::string> Names(std::string_view key) const;

  const ConfigOrigin& Origin(std::string_view key) const;
  bool IsDefault(std::string_view key) const;
  // "demo.ini:12: run.max_new_tokens" or "run.max_new_tokens": how errors about a value begin.
  std::string Describe(std::string_view key) const;

  // The values of one plugin's options, named without the <kind>.<plugin>. prefix.
  std::vector<OptionValue> PluginValues(std::string_view kind, std::string_view plugin) const;

  // An INI file that gives the same run: every key, sections in table order.
  std::string ToIni() const;
  // One line per key: "key = value  # origin".
  std::string ToAnnotated() const;

 private:
  struct Item {
    const ConfigKey* declared = nullptr;
    OptionValue value;
    std::vector<int64_t> list;
    ConfigOrigin origin;
  };
  const Item& Find(std::string_view key, OptionType type) const;

  std::vector<ConfigKey> keys_;  // declaration order; specs are borrowed
  std::map<std::string, Item, std::less<>> items_;
};

// The name in `known` nearest to `name`, if one is near enough to be meant.
std::optional<std::string> NearestName(std::string_view name, std::span<const std::string> known);

}  // namespace ng

#endif  // NG_CORE_CONFIG_CONFIG_H_
