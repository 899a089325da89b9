#include "plugins/sampler/grammar/calls/loosen.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "ng/status.h"

namespace ng::grammar {
namespace {

constexpr std::string_view kOfSchemas[] = {
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "allOf", "anyOf",
    "oneOf",      "prefixItems"};
constexpr std::string_view kSchemas[] = {"items",
                                         "additionalItems",
                                         "additionalProperties",
                                         "unevaluatedProperties",
                                         "contains",
                                         "unevaluatedItems",
                                         "propertyNames",
                                         "not",
                                         "if",
                                         "then",
                                         "else"};
constexpr std::string_view kPlainTypes[] = {"null",   "boolean", "string", "array",
                                            "object", "integer", "number"};

template <class List>
bool IsOneOf(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != std::end(list);
}

enum class PointedAt { kSchema, kSchemas, kValue };

// Names are not escaped in pointers: the longest one that there is counts.
Json* Below(Json& value, std::string_view* path, std::string* name) {
  Json* found = nullptr;
  std::string_view rest;
  const auto consider = [&](const std::string& key, Json& below) {
    const std::string shown = OneLine(key);
    if (!path->starts_with(shown)) return;
    const std::string_view behind = path->substr(shown.size());
    if (!behind.empty() && behind.front() != '/') return;
    if (found != nullptr && behind.size() >= rest.size()) return;
    found = &below;
    rest = behind;
    *name = key;
  };
  if (value.is_object()) {
    for (auto& [key, below] : value.items()) consider(key, below);
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) consider(std::to_string(i), value[i]);
  }
  *path = rest;
  return found;
}

bool KeepType(Json* schema) {
  Json type;
  if (schema->is_object() && schema->contains("type")) type = (*schema)["type"];
  Json kept = Json::object();
  if (type.is_string() && IsOneOf(kPlainTypes, type.get<std::string>())) kept["type"] = type;
  if (*schema == kept) kept = Json::object();
  if (*schema == kept) return false;
  *schema = kept;
  return true;
}

}  // namespace

bool Loosen(const std::string& error, Json* schema) {
  constexpr std::string_view kAt = "at #";
  if (!error.starts_with(kAt)) return false;
  std::string_view path = std::string_view(error).substr(kAt.size());
  path = path.substr(0, path.find(": "));
  Json* at = schema;
  Json* around = nullptr;  // the schema that has the keyword
  std::string keyword;
  PointedAt what = PointedAt::kSchema;
  while (!path.empty()) {
    path.remove_prefix(1);
    std::string name;
    Json* const below = Below(*at, &path, &name);
    if (below == nullptr) return false;
    if (what == PointedAt::kSchema) {
      around = at;
      keyword = name;
      const bool several = IsOneOf(kOfSchemas, name) || (name == "items" && below->is_array());
      what = several                   ? PointedAt::kSchemas
             : IsOneOf(kSchemas, name) ? PointedAt::kSchema
                                       : PointedAt::kValue;
    } else if (what == PointedAt::kSchemas) {
      what = PointedAt::kSchema;
    }
    at = below;
  }
  if (what == PointedAt::kSchema && KeepType(at)) return true;
  return around != nullptr && around->erase(keyword) > 0;
}

}  // namespace ng::grammar
