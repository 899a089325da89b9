#include "core/config/value.h"

#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/config/text.h"

namespace ng {
namespace {

constexpr double kInt64End = 0x1p63;  // one past the largest int64
constexpr std::string_view kAuto = "auto";

// The shortest form of a number that is exact.
template <typename Number>
std::string Digits(Number value) {
  std::array<char, 32> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), result.ptr};
}

std::string Bound(double value, bool whole) {
  const bool as_integer = whole && std::abs(value) < kInt64End && std::trunc(value) == value;
  return as_integer ? Digits(static_cast<int64_t>(value)) : Digits(value);
}

// The bounds of a table as mathematics writes them: "(0, 1]", "[0, 2^63)".
std::string Interval(const OptionSpec& spec) {
  const bool whole = spec.type == OptionType::kInt || spec.type == OptionType::kIntList;
  const double limit = whole ? kInt64End : std::numeric_limits<double>::max();
  const std::string lower = spec.min <= -limit
                                ? (whole ? "[-2^63" : "(-inf")
                                : Cat(spec.min_open ? "(" : "[", Bound(spec.min, whole));
  const std::string upper = spec.max >= limit
                                ? (whole ? "2^63)" : "inf)")
                                : Cat(Bound(spec.max, whole), spec.max_open ? ")" : "]");
  return Cat(lower, ", ", upper);
}

// long double holds every int64 and every double exactly.
bool InRange(long double value, const OptionSpec& spec) {
  const bool above = spec.min_open ? value > spec.min : value >= spec.min;
  const bool below = spec.max_open ? value < spec.max : value <= spec.max;
  return above && below;
}

enum class NumberFault { kNone, kNotANumber, kOutOfRange };

// The whole of `text` as a number; never depends on the locale.
template <typename Number>
NumberFault ParseNumber(std::string_view text, const OptionSpec& spec, Number* number) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *number);
  if (result.ptr != end || result.ec == std::errc::invalid_argument) {
    return NumberFault::kNotANumber;
  }
  if (result.ec == std::errc::result_out_of_range) return NumberFault::kOutOfRange;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(*number)) return NumberFault::kNotANumber;
  }
  return InRange(*number, spec) ? NumberFault::kNone : NumberFault::kOutOfRange;
}

absl::Status NumberError(NumberFault fault, const ConfigKey& key, const ConfigEntry& entry) {
  switch (fault) {
    case NumberFault::kNone:
      return absl::OkStatus();
    case NumberFault::kNotANumber:
      return EntryError(entry, "must be " + AllowedValues(key));
    case NumberFault::kOutOfRange:
      break;
  }
  return EntryError(entry, "must be in " + Interval(*key.spec));
}

// "an integer", "a number".
std::string_view OneNumber(OptionType type) {
  return type == OptionType::kInt || type == OptionType::kIntList ? "an integer" : "a number";
}

template <typename Item>
void SetList(std::vector<Item> items, CheckedValue* checked) {
  const auto list = std::make_shared<const std::vector<Item>>(std::move(items));
  checked->value.items = list->data();
  checked->value.n_items = list->size();
  checked->list = list;
}

// Commas or blanks; a comma separates two items, so none may be missing.
template <typename Number>
absl::Status ParseNumbers(const ConfigKey& key, const ConfigEntry& entry, CheckedValue* checked) {
  const std::string_view text = Trim(entry.text);
  std::vector<Number> numbers;
  const bool none = text.empty() || (key.form == ConfigForm::kListOrAuto && text == kAuto);
  const auto pieces = none ? std::vector<std::string_view>() : SplitTrimmed(text, ",");
  for (const std::string_view between_commas : pieces) {
    if (between_commas.empty()) return EntryError(entry, "must be " + AllowedValues(key));
    for (const std::string_view item : SplitTrimmed(between_commas, " \t\r\n")) {
      if (item.empty()) continue;  // several blanks in a row
      const NumberFault fault = ParseNumber(item, *key.spec, &numbers.emplace_back());
      if (fault == NumberFault::kNone) continue;
      const std::string what = fault == NumberFault::kOutOfRange
                                   ? std::string("in ")
                                   : Cat(OneNumber(key.spec->type), " in ");
      return EntryError(entry, Cat("item ", Shown(item), " must be ", what, Interval(*key.spec)));
    }
  }
  SetList(std::move(numbers), checked);
  return absl::OkStatus();
}

// The character that stands for a backslash and `c` in a list of texts.
std::optional<char> Unescaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case '\\':
    case ',':
    case ' ':
      return c;
    default:
      return std::nullopt;
  }
}

// The texts of a list, and where each of them lies. Does not move.
struct TextList {
  std::vector<std::string> texts;
  std::vector<std::string_view> views;
};

// Texts between commas. Blanks at their ends are dropped, unless there is a backslash before them.
absl::Status ParseTexts(const ConfigKey& key, const ConfigEntry& entry, CheckedValue* checked) {
  const auto list = std::make_shared<TextList>();
  const std::string text = Trim(entry.text).empty() ? "" : Cat(entry.text, ",");
  std::string item;
  size_t n_kept = 0;  // of the item: up to its last character that is no plain blank
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',') {
      if (n_kept == 0) return EntryError(entry, "must be " + AllowedValues(key));
      list->texts.push_back(item.substr(0, n_kept));
      item.clear();
      n_kept = 0;
      continue;
    }
    const bool escaped = text[i] == '\\';
    const bool at_end = i + 2 == text.size();  // only the comma that was added follows
    const std::optional<char> c = !escaped ? text[i] : at_end ? std::nullopt : Unescaped(text[++i]);
    if (!c) {
      return EntryError(entry, "must have n, t, a comma, a blank or a backslash after a backslash");
    }
    const bool blank = !escaped && Trim({&*c, 1}).empty();
    if (blank && item.empty()) continue;
    item += *c;
    if (!blank) n_kept = item.size();
  }
  list->views.assign(list->texts.begin(), list->texts.end());
  checked->value.items = list->views.data();
  checked->value.n_items = list->views.size();
  checked->list = list;
  return absl::OkStatus();
}

// Absolute; normalised only where that cannot change its meaning ("link/.." may be anywhere).
absl::StatusOr<std::string> AbsolutePath(std::string_view path, const ConfigEntry& entry) {
  namespace fs = std::filesystem;
  fs::path full(path);
  if (entry.origin.kind == ConfigOrigin::Kind::kFile) {
    full = fs::path(entry.origin.file).parent_path() / full;
  }
  std::error_code error;
  full = fs::absolute(full, error);
  if (error == std::errc::not_enough_memory) return LimitError("out of memory");
  if (error) return EntryError(entry, "cannot be made absolute: " + error.message());
  for (const fs::path& part : full) {
    if (part == "..") return full.string();
  }
  return full.lexically_normal().string();
}

absl::StatusOr<std::string> AbsolutePaths(const ConfigEntry& entry, ConfigForm form) {
  const bool with_scales = form != ConfigForm::kPathList;
  if (Trim(entry.text).empty()) return std::string();
  std::string joined;
  for (const std::string_view piece : SplitTrimmed(entry.text, with_scales ? "," : ":,")) {
    size_t colon = with_scales ? piece.rfind(':') : piece.npos;
    const size_t equals = form == ConfigForm::kNamedPathsWithScales ? piece.find('=') : piece.npos;
    if (form == ConfigForm::kNamedPathsWithScales && (equals == piece.npos || equals == 0)) {
      return EntryError(entry, "must have a name and '=' before each path");
    }
    const size_t begin = equals == piece.npos ? 0 : equals + 1;
    if (colon != piece.npos && colon < begin) colon = piece.npos;
    const std::string_view own = piece.substr(begin, colon == piece.npos ? colon : colon - begin);
    if (own.empty()) return EntryError(entry, "must not have an empty path in the list");
    NG_ASSIGN_OR_RETURN(const std::string path, AbsolutePath(own, entry));
    if (path.find_first_of(":,") != std::string::npos) {
      return EntryError(entry,
                        "is " + Shown(path) + " in full, must be a path without ':' and ','");
    }
    if (!joined.empty()) joined += ",";
    joined += piece.substr(0, begin);
    joined += path;
    if (colon != piece.npos) joined += piece.substr(colon);
  }
  return joined;
}

bool IsChoice(std::string_view text, const OptionSpec& spec) {
  for (const std::string_view choice : SplitTrimmed(spec.choices, "|")) {
    if (text == choice) return true;
  }
  return false;
}

absl::StatusOr<std::string> ParseText(const ConfigKey& key, const ConfigEntry& entry) {
  const OptionSpec& spec = *key.spec;
  // The default counts too: cache.codec_k is empty, or one of the choices.
  const bool restricted = spec.choices != nullptr && entry.text != DefaultEntry(key).text;
  if (restricted && !IsChoice(entry.text, spec)) {
    const std::optional<std::string> meant = NearestChoice(entry.text, spec.choices);
    return EntryError(entry,
                      absl::StrCat("must be ", AllowedValues(key),
                                   meant ? absl::StrCat("; did you mean ", *meant, "?") : ""));
  }
  switch (key.form) {
    case ConfigForm::kPath:
      if (entry.text.empty()) return std::string();
      return AbsolutePath(entry.text, entry);
    case ConfigForm::kNameOrPath:
      if (entry.text.find_first_of("/.") == std::string::npos) return entry.text;
      return AbsolutePath(entry.text, entry);
    case ConfigForm::kPathList:
    case ConfigForm::kPathsWithScales:
    case ConfigForm::kNamedPathsWithScales:
      return AbsolutePaths(entry, key.form);
    case ConfigForm::kNames:
      if (entry.text.empty() && DefaultEntry(key).text.empty()) break;
      for (const std::string_view name : SplitTrimmed(entry.text, ",")) {
        if (name.empty()) return EntryError(entry, "must be " + AllowedValues(key));
      }
      return entry.text;
    case ConfigForm::kPlain:
    case ConfigForm::kListOrAuto:
    case ConfigForm::kSecret:
      break;
  }
  return entry.text;
}

}  // namespace

absl::Status EntryError(const ConfigEntry& entry, std::string_view problem) {
  const std::string found = Shown(entry.text);
  const std::string tail(problem);
  switch (entry.origin.kind) {
    case ConfigOrigin::Kind::kCommandLine:
      if (!entry.spelling.empty()) {
        return UsageError(Cat("--", entry.spelling, "=", found, " (", entry.key, "): ", tail));
      }
      return UsageError("--" + entry.key + "=" + found + ": " + tail);
    case ConfigOrigin::Kind::kFile:
      return UsageError(entry.origin.ToString() + ": " + entry.key + " = " + found + ", " + tail);
    case ConfigOrigin::Kind::kModel:
      return ModelFileError(Cat(entry.origin.file, " = ", found, " for ", entry.key, ", ", tail,
                                "; run.model_defaults = false runs without it"));
    case ConfigOrigin::Kind::kDefault:
      break;
  }
  return PluginError("default " + entry.key + " = " + found + ", " + tail);
}

ConfigEntry DefaultEntry(const ConfigKey& key) {
  const OptionSpec& spec = *key.spec;
  if (spec.default_value != nullptr) return {key.key, spec.default_value, {}};
  if (spec.type == OptionType::kInt) return {key.key, Digits(spec.default_int), {}};
  if (spec.type == OptionType::kReal) return {key.key, Digits(spec.default_real), {}};
  return {key.key, "", {}};
}

std::string AllowedValues(const ConfigKey& key) {
  const OptionSpec& spec = *key.spec;
  switch (spec.type) {
    case OptionType::kBool:
      return "true or false";
    case OptionType::kInt:
    case OptionType::kReal:
      return Cat(key.form == ConfigForm::kListOrAuto ? "auto or " : "", OneNumber(spec.type),
                 " in ", Interval(spec));
    case OptionType::kIntList:
    case OptionType::kRealList:
      return Cat(key.form == ConfigForm::kListOrAuto ? "auto or " : "",
                 spec.type == OptionType::kIntList ? "integers in " : "numbers in ", Interval(spec),
                 " separated by commas or blanks");
    case OptionType::kTextList:
      return "texts separated by commas";
    case OptionType::kText:
      break;
  }
  if (spec.choices != nullptr) {
    std::string list;
    for (const std::string_view choice : SplitTrimmed(spec.choices, "|")) {
      list += (list.empty() ? "one of " : ", ") + std::string(choice);
    }
    return DefaultEntry(key).text.empty() ? list + ", or empty" : list;
  }
  switch (key.form) {
    case ConfigForm::kPath:
      return "a path";
    case ConfigForm::kNameOrPath:
      return "a name or a path";
    case ConfigForm::kPathList:
      return "paths separated by ':' or ','";
    case ConfigForm::kPathsWithScales:
      return "paths separated by ',', each perhaps with ':' and a number";
    case ConfigForm::kNamedPathsWithScales:
      return "NAME=PATH separated by ',', each perhaps with ':' and a number";
    case ConfigForm::kNames:
      return DefaultEntry(key).text.empty() ? "names separated by commas, or empty"
                                            : "names separated by commas";
    default:
      return "text";
  }
}

absl::StatusOr<CheckedValue> CheckValue(const ConfigKey& key, const ConfigEntry& entry) {
  const OptionSpec& spec = *key.spec;
  CheckedValue checked;
  OptionValue& value = checked.value;
  value.name = key.key;
  value.type = spec.type;
  value.text = Trim(entry.text);
  switch (spec.type) {
    case OptionType::kBool:
      if (value.text != "true" && value.text != "false") {
        return EntryError(entry, "must be " + AllowedValues(key));
      }
      value.boolean = value.text == "true";
      return checked;
    case OptionType::kInt:
      if (key.form == ConfigForm::kListOrAuto && value.text == kAuto) {
        value.integer = spec.default_int;
        return checked;
      }
      NG_RETURN_IF_ERROR(NumberError(ParseNumber(value.text, spec, &value.integer), key, entry));
      return checked;
    case OptionType::kReal:
      NG_RETURN_IF_ERROR(NumberError(ParseNumber(value.text, spec, &value.real), key, entry));
      return checked;
    case OptionType::kIntList:
      NG_RETURN_IF_ERROR(ParseNumbers<int64_t>(key, entry, &checked));
      return checked;
    case OptionType::kRealList:
      NG_RETURN_IF_ERROR(ParseNumbers<double>(key, entry, &checked));
      return checked;
    case OptionType::kTextList:
      value.text = entry.text;  // a blank at its end may belong to it
      NG_RETURN_IF_ERROR(ParseTexts(key, entry, &checked));
      return checked;
    case OptionType::kText: {
      NG_ASSIGN_OR_RETURN(value.text, ParseText(key, entry));
      return checked;
    }
  }
  return PluginError("option " + key.key + ": type " +
                     std::to_string(static_cast<int32_t>(spec.type)) +
                     " is not one that this version knows");
}

}  // namespace ng
