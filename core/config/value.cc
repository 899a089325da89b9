#include "core/config/value.h"

#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "core/config/text.h"

namespace ng {
namespace {

constexpr double kInt64End = 0x1p63;  // one past the largest int64
constexpr std::string_view kAuto = "auto";

// The shortest form of a bound that is exact.
std::string Bound(double value, bool whole) {
  std::array<char, 32> digits{};
  char* const end = digits.data() + digits.size();
  const bool as_integer = whole && std::abs(value) < kInt64End && std::trunc(value) == value;
  const auto result = as_integer ? std::to_chars(digits.data(), end, static_cast<int64_t>(value))
                                 : std::to_chars(digits.data(), end, value);
  return {digits.data(), result.ptr};
}

// The bounds of a table as mathematics writes them: "(0, 1]", "[0, 2^63)".
std::string Interval(const OptionSpec& spec) {
  const bool whole = spec.type != OptionType::kReal;
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

// Commas or blanks; a comma separates two items, so none may be missing.
absl::Status ParseIntList(const ConfigKey& key, const ConfigEntry& entry,
                          std::vector<int64_t>* list) {
  const std::string_view text = Trim(entry.text);
  if (text.empty() || (key.form == ConfigForm::kListOrAuto && text == kAuto)) {
    return absl::OkStatus();
  }
  for (const std::string_view between_commas : SplitTrimmed(text, ",")) {
    if (between_commas.empty()) return EntryError(entry, "must be " + AllowedValues(key));
    for (const std::string_view item : SplitTrimmed(between_commas, " \t\r\n")) {
      if (item.empty()) continue;  // several blanks in a row
      int64_t id = 0;
      const NumberFault fault = ParseNumber(item, *key.spec, &id);
      if (fault != NumberFault::kNone) {
        const std::string which = "item " + Shown(item) + " ";
        return EntryError(entry, which + (fault == NumberFault::kOutOfRange
                                              ? "must be in " + Interval(*key.spec)
                                              : "must be an integer in " + Interval(*key.spec)));
      }
      list->push_back(id);
    }
  }
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

absl::StatusOr<std::string> AbsolutePaths(const ConfigEntry& entry) {
  if (Trim(entry.text).empty()) return std::string();
  std::string joined;
  for (const std::string_view piece : SplitTrimmed(entry.text, ":,")) {
    if (piece.empty()) return EntryError(entry, "must not have an empty path in the list");
    NG_ASSIGN_OR_RETURN(const std::string path, AbsolutePath(piece, entry));
    if (path.find_first_of(":,") != std::string::npos) {
      return EntryError(entry,
                        "is " + Shown(path) + " in full, must be a path without ':' and ','");
    }
    if (!joined.empty()) joined += ",";
    joined += path;
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
    case ConfigForm::kPathList:
      return AbsolutePaths(entry);
    case ConfigForm::kNames:
      for (const std::string_view name : SplitTrimmed(entry.text, ",")) {
        if (name.empty()) return EntryError(entry, "must be " + AllowedValues(key));
      }
      return entry.text;
    case ConfigForm::kPlain:
    case ConfigForm::kListOrAuto:
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
      return UsageError("--" + entry.key + "=" + found + ": " + tail);
    case ConfigOrigin::Kind::kFile:
      return UsageError(entry.origin.ToString() + ": " + entry.key + " = " + found + ", " + tail);
    case ConfigOrigin::Kind::kDefault:
      break;
  }
  return PluginError("default " + entry.key + " = " + found + ", " + tail);
}

ConfigEntry DefaultEntry(const ConfigKey& key) {
  const char* text = key.spec->default_value;
  return {key.key, text == nullptr ? "" : text, {}};
}

std::string AllowedValues(const ConfigKey& key) {
  const OptionSpec& spec = *key.spec;
  switch (spec.type) {
    case OptionType::kBool:
      return "true or false";
    case OptionType::kInt:
      return "an integer in " + Interval(spec);
    case OptionType::kReal:
      return "a number in " + Interval(spec);
    case OptionType::kIntList:
      return std::string(key.form == ConfigForm::kListOrAuto ? "auto or " : "") + "integers in " +
             Interval(spec) + " separated by commas or blanks";
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
    case ConfigForm::kPathList:
      return "paths separated by ':' or ','";
    case ConfigForm::kNames:
      return "names separated by commas";
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
      NG_RETURN_IF_ERROR(NumberError(ParseNumber(value.text, spec, &value.integer), key, entry));
      return checked;
    case OptionType::kReal:
      NG_RETURN_IF_ERROR(NumberError(ParseNumber(value.text, spec, &value.real), key, entry));
      return checked;
    case OptionType::kIntList:
      NG_RETURN_IF_ERROR(ParseIntList(key, entry, &checked.list));
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
