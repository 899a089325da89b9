// Options as data: the table by which a plugin (or the engine itself) declares its config keys,
// and the checked values it gets back.
//
// The config layer parses and range-checks every value against the table before a plugin is
// created; a plugin never sees a value its table does not allow.
#ifndef NG_OPTION_H_
#define NG_OPTION_H_

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace ng {

enum class OptionType : int32_t {
  kBool,     // true | false
  kInt,      // int64, within [min, max]
  kReal,     // double, within the bounds
  kText,     // any text; with `choices`, one of them
  kIntList,  // integers separated by commas or spaces, each within [min, max]; may be empty
};

// C layout; lives in the plugin's read-only data for the life of the process.
struct OptionSpec {
  const char* name;           // plugin: "k"; the config key is <kind>.<plugin>.<name>
  OptionType type;            //
  const char* default_value;  // as it would be written in the config file
  double min;                 // kInt, kReal, kIntList: smallest allowed value
  double max;                 // largest allowed value
  bool min_open;              // the bound itself is not allowed, as in (0, 1]
  bool max_open;              //
  const char* choices;        // kText: allowed values separated by '|'; null: any
  const char* help;           // one line
};

// One checked value. Which member is set follows from the option's type.
struct OptionValue {
  std::string name;
  OptionType type = OptionType::kText;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0.0;
  std::string text;  // the value as written, for every type
  std::span<const int64_t> list;
};

// The values of one plugin's options, every declared option present. Borrowed: valid while the
// plugin is created, so copy what is kept.
class OptionValues {
 public:
  OptionValues() = default;
  explicit OptionValues(std::span<const OptionValue> values) : values_(values) {}

  // REQUIRES: `name` is declared with this type in the plugin's table; anything else is a bug of
  // the plugin and throws std::logic_error, which the host reports as a failed create.
  bool Bool(std::string_view name) const { return Find(name, OptionType::kBool).boolean; }
  int64_t Int(std::string_view name) const { return Find(name, OptionType::kInt).integer; }
  double Real(std::string_view name) const { return Find(name, OptionType::kReal).real; }
  std::string_view Text(std::string_view name) const { return Find(name, OptionType::kText).text; }
  std::span<const int64_t> IntList(std::string_view name) const {
    return Find(name, OptionType::kIntList).list;
  }

 private:
  const OptionValue& Find(std::string_view name, OptionType type) const {
    for (const OptionValue& value : values_) {
      if (value.name == name && value.type == type) return value;
    }
    throw std::logic_error("option '" + std::string(name) + "' is not declared with this type");
  }

  std::span<const OptionValue> values_;
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_OPTION_H_
