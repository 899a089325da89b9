// Config: every key of a run with its value and where the value came from.
//
// There are four layers: the key's default, what the model's makers say of its sampling, the config
// file, the command line. The later layer wins. Keys are dotted ("run.max_new_tokens"); a plugin's
// option is <kind>.<plugin>.<option>. Engine::ReadConfig makes one without opening the model,
// Engine::config has that of an open engine.
//
// Thread: a Config is immutable and may be read from any thread.
#ifndef NG_CONFIG_H_
#define NG_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/option.h"

#pragma GCC visibility push(default)
namespace ng {

// Where a value came from. `file` is empty for defaults and the command line; for what a model's
// makers say it names the file and the key in it.
struct ConfigOrigin {
  enum class Kind { kDefault, kFile, kCommandLine, kModel } kind = Kind::kDefault;
  std::string file;
  int line = 0;

  std::string ToString() const;  // "default", "demo.ini:12", "command line", "x.gguf: key ..."
};

// What a value means beyond its type.
enum class ConfigForm {
  kPlain,
  kPath,        // kText: a path, made absolute; in a file, relative to that file's folder
  kPathList,    // kText: several paths separated by ':' or ','; stored absolute, with commas
  kNames,       // kText: one or more names separated by commas
  kListOrAuto,  // kIntList: a list, or "auto", an empty one; kInt: a number, or "auto", default_int
  kNameOrPath,  // kText: with a '/' or a '.' it is as kPath, else a name
  kSecret,      // kText: nothing that shows or keeps a config has it
  // kText: several paths separated by ',', each perhaps with ':' and a number behind it; stored
  // absolute
  kPathsWithScales,
  kNamedPathsWithScales,  // the same, each with a name and '=' before it
};

// One declared key. REQUIRES: `key` has a dot.
struct ConfigKey {
  std::string key;                   // dotted: run.threads, sampler.top_k.k
  const OptionSpec* spec = nullptr;  // borrowed: the core table, or a plugin's
  ConfigForm form = ConfigForm::kPlain;
};

// One key of a config.
struct ConfigItem {
  ConfigKey declared;
  OptionValue value;                 // named by the full key
  std::shared_ptr<const void> list;  // holds what value.items points to; copies share it
  ConfigOrigin origin;

  // Whether it is set and must stay out of what others may come to read: pages, records, files.
  bool hidden() const { return declared.form == ConfigForm::kSecret && !value.text.empty(); }
};

class Config {
 public:
  Config() = default;
  // REQUIRES: no key occurs twice; the keys of a section are together; each value is as its
  // declaration says.
  explicit Config(std::vector<ConfigItem> items);

  // REQUIRES: the key is declared with this type; anything else is a bug of the caller and throws
  // std::logic_error (here and below). Returned references live as long as the Config.
  bool Bool(std::string_view key) const;
  int64_t Int(std::string_view key) const;
  double Real(std::string_view key) const;
  std::span<const int64_t> IntList(std::string_view key) const;
  // The value as text, for a key of any type. Paths are absolute.
  const std::string& Text(std::string_view key) const;
  // The names in the text, which commas separate: sampler.chain, plugins.path.
  std::vector<std::string> Names(std::string_view key) const;

  const ConfigOrigin& Origin(std::string_view key) const;
  bool IsDefault(std::string_view key) const;
  // Errors about a value begin with this: "demo.ini:12: run.max_new_tokens", or the key alone.
  std::string Describe(std::string_view key) const;

  // Every key, sections and keys in declaration order.
  std::span<const ConfigItem> items() const { return items_; }

  // An INI file that gives the same run: every key, sections and keys in declaration order. A
  // hidden key has no value there, and a comment says so.
  std::string ToIni() const;
  // One line per key, in the same order: "key = value  (origin)".
  std::string ToAnnotated() const;

  // Each key with its default, its help line and what is allowed, grouped by section. Lines have at
  // most 100 columns, unless a word is longer.
  //
  //   [run]
  //     run.threads = 0
  //         worker threads; 0: one per physical core, within the CPU quota (an integer ...)
  std::string Help() const;

 private:
  const ConfigItem& Find(std::string_view key) const;
  const ConfigItem& Find(std::string_view key, OptionType type) const;

  std::vector<ConfigItem> items_;
  std::map<std::string, size_t, std::less<>> index_;  // key -> its place in items_
};

// What cache.codec, cache.codec_k and cache.codec_v name together, as the config spells codecs.
struct CodecNames {
  std::string k;
  std::string v;

  std::string Text() const { return k == v ? k : k + "/" + v; }
};
CodecNames CodecsOf(const Config& config);

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_CONFIG_H_
