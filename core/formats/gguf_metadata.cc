#include <array>
#include <bit>
#include <cassert>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/cursor.h"
#include "core/formats/gguf.h"

namespace ng {
namespace {

constexpr std::array<const char*, 13> kArrayNames = {
    "uint8", "int8", "uint16", "int16",  "uint32", "int32",  "float32",
    "bool",  "text", "array",  "uint64", "int64",  "float64"};
static_assert(kArrayNames.size() == static_cast<size_t>(GgufType::kF64) + 1);

const char* NameOf(GgufType type) { return kArrayNames[static_cast<size_t>(type)]; }

// The next integer of an array, whose bytes were counted when it was read. Nothing if it is larger
// than INT64_MAX.
std::optional<int64_t> NextInt(GgufType type, Cursor& cursor) {
  switch (type) {
    case GgufType::kU8:
      return cursor.U8().value();
    case GgufType::kI8:
      return static_cast<int8_t>(cursor.U8().value());
    case GgufType::kU16:
      return cursor.U16().value();
    case GgufType::kI16:
      return static_cast<int16_t>(cursor.U16().value());
    case GgufType::kU32:
      return cursor.U32().value();
    case GgufType::kI32:
      return static_cast<int32_t>(cursor.U32().value());
    case GgufType::kI64:
      return static_cast<int64_t>(cursor.U64().value());
    default: {
      assert(type == GgufType::kU64);
      const uint64_t value = cursor.U64().value();
      if (value > uint64_t{INT64_MAX}) return std::nullopt;
      return static_cast<int64_t>(value);
    }
  }
}

bool IsInteger(GgufType type) {
  return type <= GgufType::kI32 || type == GgufType::kU64 || type == GgufType::kI64;
}

// The integer that all elements of an array are, if they are the same.
std::optional<int64_t> EachOf(const GgufMetadata::Array& array) {
  if (!IsInteger(array.type) || array.count == 0) return std::nullopt;
  Cursor cursor(array.bytes);
  const std::optional<int64_t> first = NextInt(array.type, cursor);
  while (!cursor.at_end()) {
    if (NextInt(array.type, cursor) != first) return std::nullopt;
  }
  return first;
}

}  // namespace

JsonFields GgufMetadata::fields() const { return JsonFields::Of(values_, path_, read_).value(); }

JsonFields GgufMetadata::FieldsOf(const nlohmann::json& object, const std::string& prefix) const {
  return JsonFields::Of(object, path_, read_, prefix).value();
}

std::vector<std::string> GgufMetadata::KeysWith(std::string_view prefix) const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values_.items()) {
    if (key.starts_with(prefix)) keys.push_back(key);
  }
  return keys;
}

std::vector<std::string> GgufMetadata::Unread() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : values_.items()) {
    const auto array = arrays_.find(key);
    const bool empty = array == arrays_.end() ? SaysNothing(value) : array->second.count == 0;
    if (!empty && !read_->contains(key)) names.push_back(key);
  }
  return names;
}

bool GgufMetadata::Add(std::string_view key, nlohmann::json value) {
  return values_.emplace(key, std::move(value)).second;
}

bool GgufMetadata::Add(std::string_view key, Array array) {
  nlohmann::json field = {{"array of", NameOf(array.type)}, {"count", array.count}};
  if (const std::optional<int64_t> each = EachOf(array)) field["each"] = *each;
  if (!Add(key, std::move(field))) return false;
  arrays_.emplace(key, std::move(array));
  return true;
}

std::optional<nlohmann::json> GgufMetadata::Remove(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  nlohmann::json value = std::move(*found);
  values_.erase(found);
  arrays_.erase(key);
  return value;
}

absl::StatusOr<const GgufMetadata::Array*> GgufMetadata::Find(std::string_view key,
                                                              std::string_view wanted) const {
  const auto found = arrays_.find(key);
  if (found != arrays_.end()) {
    read_->emplace(key);
    return &found->second;
  }
  const auto single = values_.find(key);
  return ModelFileError(absl::StrCat(
      path_, ": key \"", View(key), "\"",
      single == values_.end() ? " is missing" : absl::StrCat(" = ", JsonExcerpt(*single)),
      ", must be an array of ", View(wanted)));
}

namespace {

absl::Status WrongElements(const std::string& path, std::string_view key, GgufType found,
                           std::string_view wanted) {
  return ModelFileError(absl::StrCat(path, ": key \"", View(key), "\" is an array of ",
                                     NameOf(found), ", must be an array of ", View(wanted)));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> GgufMetadata::Texts(std::string_view key) const {
  constexpr std::string_view kWanted = "text";
  NG_ASSIGN_OR_RETURN(const Array* array, Find(key, kWanted));
  if (array->type != GgufType::kText) return WrongElements(path_, key, array->type, kWanted);
  std::vector<std::string> texts;
  texts.reserve(static_cast<size_t>(array->count));
  Cursor cursor(array->bytes);
  while (!cursor.at_end()) texts.emplace_back(cursor.LengthPrefixedString().value());
  return texts;
}

absl::StatusOr<std::vector<float>> GgufMetadata::Floats(std::string_view key) const {
  constexpr std::string_view kWanted = "float32";
  NG_ASSIGN_OR_RETURN(const Array* array, Find(key, kWanted));
  if (array->type != GgufType::kF32) return WrongElements(path_, key, array->type, kWanted);
  std::vector<float> values;
  values.reserve(static_cast<size_t>(array->count));
  Cursor cursor(array->bytes);
  while (!cursor.at_end()) values.push_back(cursor.F32().value());
  return values;
}

absl::StatusOr<std::vector<int64_t>> GgufMetadata::Ints(std::string_view key) const {
  constexpr std::string_view kWanted = "integers";
  NG_ASSIGN_OR_RETURN(const Array* array, Find(key, kWanted));
  if (!IsInteger(array->type)) return WrongElements(path_, key, array->type, kWanted);
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(array->count));
  Cursor cursor(array->bytes);
  while (!cursor.at_end()) {
    const std::optional<int64_t> value = NextInt(array->type, cursor);
    if (!value) {
      return ModelFileError(absl::StrCat(path_, ": key \"", View(key), "\"[", values.size(),
                                         "] is above ", INT64_MAX));
    }
    values.push_back(*value);
  }
  return values;
}

absl::StatusOr<std::vector<bool>> GgufMetadata::Switches(std::string_view key) const {
  NG_ASSIGN_OR_RETURN(const Array* array, Find(key, "bools"));
  std::vector<bool> values;
  if (array->type == GgufType::kBool) {
    for (const char byte : array->bytes) values.push_back(byte != 0);
    return values;
  }
  NG_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, Ints(key));
  for (const int64_t number : numbers) values.push_back(number != 0);
  return values;
}

}  // namespace ng
