#include "apps/serve/answers/held/closed_schema.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "ng/ordered_json.h"

namespace ng::serve {
namespace {

// What says something of properties that are not listed, or of how many there are.
constexpr std::string_view kOfOthers[] = {"additionalProperties",  "patternProperties",
                                          "unevaluatedProperties", "propertyNames",
                                          "dependentRequired",     "minProperties"};
// By what several schemas speak of one value.
constexpr std::string_view kTogether[] = {"allOf",       "oneOf",         "not",
                                          "if",          "then",          "else",
                                          "$dynamicRef", "$recursiveRef", "dependentSchemas",
                                          "contains",    "dependencies"};
// What stands beside a reference and says nothing of the value.
constexpr std::string_view kBesideReference[] = {
    "$ref",     "$schema",     "$id",     "$comment", "$defs",      "definitions", "title",
    "examples", "description", "default", "example",  "deprecated", "readOnly",    "writeOnly"};

template <class List>
bool IsOneOf(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != std::end(list);
}

// What the keywords of one schema are.
struct Keywords {
  Json* properties = nullptr;
  Json* required = nullptr;
  Json* any_of = nullptr;
  bool of_others = false;
  bool listed = false;    // the values themselves are listed
  bool together = false;  // more than one schema speaks of the value
  bool refers = false;
};

Keywords KeywordsOf(Json& schema) {
  Keywords found;
  bool says = false;  // beside a reference
  for (auto& [name, value] : schema.items()) {
    if (name == "properties" && value.is_object()) found.properties = &value;
    if (name == "required") found.required = &value;
    if (name == "anyOf") found.any_of = &value;
    found.refers = found.refers || name == "$ref";
    found.listed = found.listed || name == "enum" || name == "const";
    found.of_others = found.of_others || IsOneOf(kOfOthers, name);
    found.together = found.together || IsOneOf(kTogether, name);
    says = says || !IsOneOf(kBesideReference, name);
  }
  const bool with_any = found.any_of != nullptr && (found.properties != nullptr ||
                                                    found.required != nullptr || found.of_others);
  found.together = found.together || with_any || (found.refers && says);
  return found;
}

// Of a whole document: whether schemas speak together somewhere, and whether any is referred to.
void Look(Json& value, bool* together, bool* refers) {
  if (value.is_object()) {
    const Keywords found = KeywordsOf(value);
    *together = *together || found.together;
    *refers = *refers || found.refers;
  }
  for (auto& below : value) {
    if (below.is_structured()) Look(below, together, refers);
  }
}

bool ListsAll(const Json& properties, const Json* required) {
  if (required == nullptr) return true;
  if (!required->is_array()) return false;
  std::set<std::string_view> listed;
  for (const auto& [name, schema] : properties.items()) listed.insert(name);
  return std::ranges::all_of(*required, [&](const Json& name) {
    return name.is_string() && listed.contains(name.get_ref<const std::string&>());
  });
}

void Close(Json& schema);

void CloseEach(Json& schemas) {
  for (Json& one : schemas) Close(one);
}

void Close(Json& schema) {
  if (!schema.is_object()) return;
  const Keywords found = KeywordsOf(schema);
  if (found.together || found.refers || found.listed) return;
  if (found.properties != nullptr) CloseEach(*found.properties);
  if (found.any_of != nullptr) CloseEach(*found.any_of);
  const bool closes = found.properties != nullptr && !found.of_others &&
                      ListsAll(*found.properties, found.required);
  for (auto& [name, value] : schema.items()) {
    const bool of_elements = name == "items" || name == "prefixItems";
    if (of_elements && value.is_array()) CloseEach(value);
    if (of_elements || name == "additionalProperties") Close(value);
  }
  if (closes) schema["additionalProperties"] = false;
}

}  // namespace

Json ClosedSchema(Json schema) {
  bool together = false;
  bool refers = false;
  Look(schema, &together, &refers);
  // What is referred to may be spoken of together with something else.
  if (!schema.is_object() || (together && refers)) return schema;
  for (auto& [name, value] : schema.items()) {
    if ((name == "$defs" || name == "definitions") && value.is_object()) CloseEach(value);
  }
  Close(schema);
  return schema;
}

std::string ClosedSchemaText(const std::string& schema) {
  return ClosedSchema(ParseCheckedJson(schema)).dump();
}

std::string WithClosedParameters(const std::string& tools) {
  Json list = ParseCheckedJson(tools);
  for (Json& tool : list) {
    if (!tool.is_object()) continue;
    Json& function = tool.contains("function") ? tool["function"] : tool;
    if (!function.is_object() || !function.contains("parameters")) continue;
    Json& parameters = function["parameters"];
    parameters = ClosedSchema(std::move(parameters));
  }
  return list.dump();
}

}  // namespace ng::serve
