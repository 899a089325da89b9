// Options as data: the table by which a plugin (or the engine itself) declares its config keys,
// and the checked values it gets back.
//
//   constexpr ng::OptionSpec kOptions[] = {
//       ng::IntOption("window", 4096, {.min = 1}, "tokens that a query sees"),
//       ng::RealOption("p", 0.95, {.min = 0, .max = 1, .min_open = true}, "the mass to reach"),
//       ng::ChoiceOption("mode", "fast", "fast|exact", "how it is computed"),
//       ng::TextListOption("stops", "", "texts that end the answer")};
//
// The config layer parses and range-checks every value against the table before a plugin is
// created; a plugin never sees a value its table does not allow.
#ifndef NG_OPTION_H_
#define NG_OPTION_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace ng {

enum class OptionType : int32_t {
  kBool,      // true | false
  kInt,       // int64, within [min, max]
  kReal,      // double, within the bounds
  kText,      // any text; with `choices`, one of them
  kIntList,   // integers separated by commas or blanks, each within [min, max]; may be empty
  kRealList,  // numbers separated by commas or blanks, each within the bounds; may be empty
  // Texts separated by commas; may be empty. Blanks around a text do not belong to it. In a text,
  // \n is a line's end, \t a tab, and \\, \, and "\ " are a backslash, a comma and a blank.
  kTextList,
};
inline constexpr OptionType kLastOptionType = OptionType::kTextList;

// C layout; lives in the plugin's read-only data for the life of the process. The functions below
// make one.
struct OptionSpec {
  const char* name;           // plugin: "k"; the config key is <kind>.<plugin>.<name>
  OptionType type;            //
  const char* default_value;  // as it would be written in the config file; see default_int
  double min;                 // of numbers and lists of them: the smallest allowed value
  double max;                 // the largest allowed value
  bool min_open;              // the bound itself is not allowed, as in (0, 1]
  bool max_open;              //
  union {
    const char* choices;  // kText: allowed values separated by '|'; null: any
    int64_t default_int;  // kInt with default_value = null: the default
    double default_real;  // kReal with default_value = null: the default
  };
  const char* help;  // one line
  // A value with which the part can be made, where it cannot with the default; null: it can.
  const char* example = nullptr;
};

// What an integer, or each of a list, must be within. The table holds bounds as doubles.
struct IntBounds {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};
// What a number, or each of a list, must be within.
struct RealBounds {
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
  bool min_open = false;  // the bound itself is not allowed
  bool max_open = false;
};

namespace internal {
constexpr OptionSpec MakeOption(const char* name, OptionType type, const char* value,
                                const RealBounds& bounds, const char* help) {
  return {name, type, value,  bounds.min, bounds.max, bounds.min_open, bounds.max_open,
          {},   help, nullptr};
}
constexpr RealBounds AsReal(const IntBounds& bounds) {
  return {.min = static_cast<double>(bounds.min), .max = static_cast<double>(bounds.max)};
}
}  // namespace internal

// One option of each type. A default outside its bounds does not compile in a constexpr table. The
// default of a list is written as in the config file.
constexpr OptionSpec BoolOption(const char* name, bool value, const char* help) {
  return internal::MakeOption(name, OptionType::kBool, value ? "true" : "false", {}, help);
}
constexpr OptionSpec IntOption(const char* name, int64_t value, const IntBounds& bounds,
                               const char* help) {
  if (value < bounds.min || value > bounds.max) throw std::logic_error("default out of bounds");
  OptionSpec spec =
      internal::MakeOption(name, OptionType::kInt, nullptr, internal::AsReal(bounds), help);
  spec.default_int = value;
  return spec;
}
constexpr OptionSpec RealOption(const char* name, double value, const RealBounds& bounds,
                                const char* help) {
  const bool above = bounds.min_open ? value > bounds.min : value >= bounds.min;
  const bool below = bounds.max_open ? value < bounds.max : value <= bounds.max;
  if (!above || !below) throw std::logic_error("default out of bounds");
  OptionSpec spec = internal::MakeOption(name, OptionType::kReal, nullptr, bounds, help);
  spec.default_real = value;
  return spec;
}
constexpr OptionSpec TextOption(const char* name, const char* value, const char* help) {
  return internal::MakeOption(name, OptionType::kText, value, {}, help);
}
// One of some texts: `choices` has a '|' between them.
constexpr OptionSpec ChoiceOption(const char* name, const char* value, const char* choices,
                                  const char* help) {
  OptionSpec spec = TextOption(name, value, help);
  spec.choices = choices;
  return spec;
}
constexpr OptionSpec IntListOption(const char* name, const char* value, const IntBounds& bounds,
                                   const char* help) {
  return internal::MakeOption(name, OptionType::kIntList, value, internal::AsReal(bounds), help);
}
constexpr OptionSpec RealListOption(const char* name, const char* value, const RealBounds& bounds,
                                    const char* help) {
  return internal::MakeOption(name, OptionType::kRealList, value, bounds, help);
}
constexpr OptionSpec TextListOption(const char* name, const char* value, const char* help) {
  return internal::MakeOption(name, OptionType::kTextList, value, {}, help);
}

// An option without which the part cannot be made, by itself or instead of others: `example` is for
// whoever left it out, as the config would have it.
constexpr OptionSpec WithExample(OptionSpec spec, const char* example) {
  spec.example = example;
  return spec;
}

// One checked value. Which member is set follows from the option's type.
struct OptionValue {
  std::string name;
  OptionType type = OptionType::kText;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0.0;
  std::string text;  // the value as written, for every type
  // A list, borrowed from the host: [n_items] of int64_t, double or std::string_view.
  const void* items = nullptr;
  size_t n_items = 0;

  // REQUIRES: T is the element of the option's type.
  template <class T>
  std::span<const T> List() const {
    return {static_cast<const T*>(items), n_items};
  }
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
    return Find(name, OptionType::kIntList).List<int64_t>();
  }
  std::span<const double> RealList(std::string_view name) const {
    return Find(name, OptionType::kRealList).List<double>();
  }
  std::span<const std::string_view> TextList(std::string_view name) const {
    return Find(name, OptionType::kTextList).List<std::string_view>();
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
