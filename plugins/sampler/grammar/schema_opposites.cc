// What a schema does not allow, and whether two schemas have a value in common.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/schema_nodes.h"

namespace ng::grammar {
namespace {

Json NotOfType(unsigned types) {
  Json names = Json::array();
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if ((types & (1U << i)) == 0) names.push_back(std::string(kTypes[i]));
  }
  if (names.empty()) return false;
  return Json{{"type", names}};
}

// The values that a schema lists; none where it does not.
const Json* Listed(const Json& schema, Json* list) {
  if (schema.contains("const")) *list = Json::array({schema["const"]});
  if (schema.contains("enum")) *list = schema["enum"];
  return list->is_array() ? list : nullptr;
}

}  // namespace

absl::StatusOr<SchemaNode> SchemaNodes::Negated(const SchemaNode& node) {
  if (const auto found = negated_.find(node.json); found != negated_.end()) return found->second;
  if (node.json->is_boolean()) return Made(!node.json->get<bool>(), node.at);
  if (!node.json->is_object()) return SchemaError(node.at, "is no schema");
  NG_RETURN_IF_ERROR(CheckKeywords(node));
  Json any = Json::array();
  for (const auto& [name, value] : node.json->items()) {
    if (old_ && node.json->contains("$ref") && name != "$ref") continue;
    NG_RETURN_IF_ERROR(NegateKeyword(node, name, value, any));
  }
  const SchemaNode made = any.empty() ? Made(false, node.at) : Made(Json{{"anyOf", any}}, node.at);
  return negated_[node.json] = made;
}

// Adds to `any` what makes a value break this keyword.
absl::Status SchemaNodes::NegateKeyword(const SchemaNode& node, const std::string& name,
                                        const Json& value, Json& any) {
  const std::string at = PointerTo(node.at, name);
  const auto add = [&](const char* type, const char* keyword, Json opposite) {
    any.push_back(Json{{"type", type}, {keyword, std::move(opposite)}});
    return absl::OkStatus();
  };
  const auto add_negated = [&](const Json& schema, const std::string& where) -> absl::Status {
    NG_ASSIGN_OR_RETURN(const SchemaNode negated, Negated({&schema, where}));
    any.push_back(*negated.json);
    return absl::OkStatus();
  };
  constexpr std::string_view kNoAssertion[] = {"title",    "description", "default",  "examples",
                                               "$schema",  "$id",         "$comment", "deprecated",
                                               "readOnly", "writeOnly",   "$defs",    "definitions",
                                               "$anchor",  "then",        "else"};
  if (std::ranges::find(kNoAssertion, name) != std::end(kNoAssertion)) {
    if (name != "then" && name != "else") return absl::OkStatus();
    if (!node.json->contains("if")) return absl::OkStatus();
  }
  if (name == "type") {
    NG_ASSIGN_OR_RETURN(const unsigned types, TypesOf(node));
    any.push_back(NotOfType(types));
    return absl::OkStatus();
  }
  if (name == "const" || name == "enum") {
    const Json list = name == "const" ? Json::array({value}) : value;
    any.push_back(Json{{"_differs", list}});
    return absl::OkStatus();
  }
  if (name == "minimum") return add("number", "exclusiveMaximum", value);
  if (name == "maximum") return add("number", "exclusiveMinimum", value);
  if (name == "exclusiveMinimum") return add("number", "maximum", value);
  if (name == "exclusiveMaximum") return add("number", "minimum", value);
  const bool counts = value.is_number_unsigned();
  const int64_t n =
      counts ? static_cast<int64_t>(std::min<uint64_t>(value.get<uint64_t>(), 1000000000)) : 0;
  const auto above = [&](const char* type, const char* keyword) {
    return n > 0 ? add(type, keyword, n - 1) : absl::OkStatus();
  };
  if (counts && name == "minLength") return above("string", "maxLength");
  if (counts && name == "minItems") return above("array", "maxItems");
  if (counts && name == "minProperties") return above("object", "maxProperties");
  if (counts && name == "maxLength") return add("string", "minLength", n + 1);
  if (counts && name == "maxItems") return add("array", "minItems", n + 1);
  if (counts && name == "maxProperties") return add("object", "minProperties", n + 1);
  if (name == "required") {
    for (const Json& key : value) {
      if (!key.is_string()) return SchemaError(at, "must be a list of texts");
      NG_RETURN_IF_ERROR(add("object", "properties", Json{{key.get<std::string>(), false}}));
    }
    return absl::OkStatus();
  }
  if (name == "properties") {
    for (const auto& [key, schema] : value.items()) {
      NG_ASSIGN_OR_RETURN(const SchemaNode negated, Negated({&schema, PointerTo(at, key)}));
      any.push_back(
          Json{{"type", "object"}, {"required", {key}}, {"properties", {{key, *negated.json}}}});
    }
    return absl::OkStatus();
  }
  if (name == "not") {
    any.push_back(value);
    return absl::OkStatus();
  }
  if (name == "allOf") {
    for (size_t i = 0; i < value.size(); ++i) {
      NG_RETURN_IF_ERROR(add_negated(value[i], PointerTo(at, absl::StrCat(i))));
    }
    return absl::OkStatus();
  }
  if (name == "anyOf") {
    Json all = Json::array();
    for (size_t i = 0; i < value.size(); ++i) {
      NG_ASSIGN_OR_RETURN(const SchemaNode negated,
                          Negated({&value[i], PointerTo(at, absl::StrCat(i))}));
      all.push_back(*negated.json);
    }
    any.push_back(Json{{"allOf", all}});
    return absl::OkStatus();
  }
  if (name == "$ref" && value.is_string()) {
    NG_ASSIGN_OR_RETURN(const SchemaNode target, Resolve(value.get<std::string>(), at));
    // A circle would come here again before it is known.
    negated_[node.json] = Made(Json{{"not", true}, {"type", "a circle of opposites"}}, node.at);
    return add_negated(*target.json, target.at);
  }
  return SchemaError(at,
                     "the opposite of this keyword is not supported, and not, if or oneOf "
                     "asks for it");
}

bool SchemaNodes::Disjoint(const SchemaNode& a, const SchemaNode& b, int depth) {
  constexpr int kMaxDepth = 8;
  if (depth > kMaxDepth) return false;
  if (a.json->is_boolean() || b.json->is_boolean()) return *a.json == false || *b.json == false;
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    if (!one.json->is_object()) return false;
    if (!one.json->contains("$ref") || !(*one.json)["$ref"].is_string()) continue;
    const auto target = Resolve((*one.json)["$ref"].get<std::string>(), one.at);
    if (target.ok() && Disjoint(*target, other, depth + 1)) return true;
    if (old_) return false;
  }
  const absl::StatusOr<unsigned> types_a = TypesOf(a);
  const absl::StatusOr<unsigned> types_b = TypesOf(b);
  if (!types_a.ok() || !types_b.ok()) return false;
  const unsigned types = *types_a & *types_b;
  if (types == 0) return true;
  Json list_a;
  Json list_b;
  if (Listed(*a.json, &list_a) != nullptr && Listed(*b.json, &list_b) != nullptr) {
    return std::ranges::none_of(list_a, [&](const Json& value) {
      return std::ranges::any_of(list_b, [&](const Json& other) { return Same(value, other); });
    });
  }
  if (types != kObjectType || !a.json->contains("properties")) return false;
  for (const auto& [key, schema] : (*a.json)["properties"].items()) {
    const auto requires_it = [&key = key](const Json& json) {
      return json.contains("required") && json["required"].is_array() &&
             std::ranges::find(json["required"], Json(key)) != json["required"].end();
    };
    if (!requires_it(*a.json) || !requires_it(*b.json)) continue;
    if (!b.json->contains("properties") || !(*b.json)["properties"].is_object()) continue;
    const auto other = (*b.json)["properties"].find(key);
    if (other == (*b.json)["properties"].end()) continue;
    if (Disjoint({&schema, a.at}, {&*other, b.at}, depth + 1)) return true;
  }
  return false;
}

}  // namespace ng::grammar
