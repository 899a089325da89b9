#include "apps/tokenize/line_fields.h"

#include "absl/strings/str_cat.h"
#include "apps/common/json.h"

namespace ng::tokenize {
namespace {

using Json = nlohmann::json;

constexpr int kDepth = 8;  // levels of JSON in a line; the keys that are read need two

absl::Status Missing(const char* key, const std::string& allowed) {
  return UsageError(absl::StrCat("JSON: key \"", key, "\" is missing, must be ", allowed));
}

absl::Status Wrong(const std::string& key, const Json& value, const std::string& allowed) {
  return UsageError(
      absl::StrCat("JSON: key \"", key, "\" = ", ShownJson(value), ", must be ", allowed));
}

bool IsId(const Json& value, int64_t vocab_size) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) return value.get<uint64_t>() < static_cast<uint64_t>(vocab_size);
  return value.get<int64_t>() >= 0 && value.get<int64_t>() < vocab_size;
}

}  // namespace

absl::StatusOr<LineFields> LineFields::Parse(const std::string& line) {
  NG_ASSIGN_OR_RETURN(Json value, ParseUserJson(line, "JSON", kDepth));
  if (value.is_object()) return LineFields(std::move(value));
  return UsageError(absl::StrCat("JSON: is ", ShownJson(value), ", must be a JSON object"));
}

const Json* LineFields::Find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<std::string> LineFields::Text(const char* key) const {
  const Json* const value = Find(key);
  if (value == nullptr) return Missing(key, "a string");
  if (!value->is_string()) return Wrong(key, *value, "a string");
  return value->get<std::string>();
}

absl::StatusOr<bool> LineFields::Flag(const char* key) const {
  const Json* const value = Find(key);
  if (value == nullptr) return false;
  if (!value->is_boolean()) return Wrong(key, *value, "true or false");
  return value->get<bool>();
}

absl::StatusOr<std::vector<int32_t>> LineFields::Ids(const char* key, int64_t vocab_size) const {
  const std::string id = absl::StrCat("an integer in [0, ", vocab_size - 1, "]");
  const std::string allowed = absl::StrCat("a list, each of it ", id);
  const Json* const value = Find(key);
  if (value == nullptr) return Missing(key, allowed);
  if (!value->is_array()) return Wrong(key, *value, allowed);
  for (size_t i = 0; i < value->size(); ++i) {
    if (IsId((*value)[i], vocab_size)) continue;
    return Wrong(absl::StrCat(key, "[", i, "]"), (*value)[i], id);
  }
  return value->get<std::vector<int32_t>>();
}

}  // namespace ng::tokenize
