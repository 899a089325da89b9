// What a schema does not allow, and whether two schemas have a value in common.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/schema/nodes.h"

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

}  // namespace

struct SchemaNodes::Keyword {
  const SchemaNode& node;
  const std::string& name;
  const Json& value;

  std::string at() const { return PointerTo(node.at, name); }
};

absl::StatusOr<SchemaNode> SchemaNodes::Negated(const SchemaNode& node) {
  if (const auto found = negated_.find(node.json); found != negated_.end()) return found->second;
  if (node.json->is_boolean()) return Made(!node.json->get<bool>(), node.at);
  if (!node.json->is_object()) return SchemaError(node.at, "is no schema");
  NG_RETURN_IF_ERROR(CheckKeywords(node));
  Json any = Json::array();
  for (const auto& [name, value] : node.json->items()) {
    if (old_ && node.json->contains("$ref") && name != "$ref") continue;
    NG_RETURN_IF_ERROR(NegateKeyword({node, name, value}, any));
  }
  const SchemaNode made = any.empty() ? Made(false, node.at) : Made(Json{{"anyOf", any}}, node.at);
  return negated_[node.json] = made;
}

// Adds to `any` what makes a value break this keyword.
absl::Status SchemaNodes::NegateKeyword(const Keyword& keyword, Json& any) {
  constexpr std::string_view kNoAssertion[] = {"title",    "description", "default",  "examples",
                                               "$schema",  "$id",         "$comment", "deprecated",
                                               "readOnly", "writeOnly",   "$defs",    "definitions",
                                               "$anchor",  "then",        "else"};
  const bool branch = keyword.name == "then" || keyword.name == "else";
  const bool says_nothing =
      std::ranges::find(kNoAssertion, keyword.name) != std::end(kNoAssertion) &&
      (!branch || !keyword.node.json->contains("if"));
  if (says_nothing) return absl::OkStatus();
  if (keyword.name == "type") {
    NG_ASSIGN_OR_RETURN(const unsigned types, TypesOf(keyword.node));
    any.push_back(NotOfType(types));
    return absl::OkStatus();
  }
  if (keyword.name == "const" || keyword.name == "enum") {
    const Json list = keyword.name == "const" ? Json::array({keyword.value}) : keyword.value;
    any.push_back(Json{{"_differs", list}});
    return absl::OkStatus();
  }
  NG_ASSIGN_OR_RETURN(bool known, NegateLimit(keyword, any));
  if (known) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(known, NegateCombined(keyword, any));
  if (known) return absl::OkStatus();
  return SchemaError(keyword.at(),
                     "the opposite of this keyword is not supported, and not, if or oneOf "
                     "asks for it");
}

// Whether the keyword is a bound, or a list of properties that must be there.
absl::StatusOr<bool> SchemaNodes::NegateLimit(const Keyword& keyword, Json& any) const {
  struct Opposite {
    std::string_view name;
    const char* type;
    const char* keyword;
    int64_t more = 0;  // what a count's bound becomes
  };
  constexpr Opposite kNumbers[] = {{"minimum", "number", "exclusiveMaximum"},
                                   {"maximum", "number", "exclusiveMinimum"},
                                   {"exclusiveMinimum", "number", "maximum"},
                                   {"exclusiveMaximum", "number", "minimum"}};
  constexpr Opposite kCounts[] = {{"minLength", "string", "maxLength", -1},
                                  {"maxLength", "string", "minLength", 1},
                                  {"minItems", "array", "maxItems", -1},
                                  {"maxItems", "array", "minItems", 1},
                                  {"minProperties", "object", "maxProperties", -1},
                                  {"maxProperties", "object", "minProperties", 1}};
  const Json& value = keyword.value;
  const auto* const number = std::ranges::find(kNumbers, keyword.name, &Opposite::name);
  if (number != std::end(kNumbers)) {
    any.push_back(Json{{"type", number->type}, {number->keyword, value}});
    return true;
  }
  const auto* const count = std::ranges::find(kCounts, keyword.name, &Opposite::name);
  if (count != std::end(kCounts) && value.is_number_unsigned()) {
    const auto n = static_cast<int64_t>(std::min<uint64_t>(value.get<uint64_t>(), 1000000000));
    // At least 0 holds always.
    if (n + count->more >= 0) {
      any.push_back(Json{{"type", count->type}, {count->keyword, n + count->more}});
    }
    return true;
  }
  if (keyword.name != "required") return false;
  for (const Json& key : value) {
    if (!key.is_string()) return SchemaError(keyword.at(), "must be a list of texts");
    any.push_back(Json{{"type", "object"}, {"properties", {{key.get<std::string>(), false}}}});
  }
  return true;
}

// Whether the keyword holds schemas.
absl::StatusOr<bool> SchemaNodes::NegateCombined(const Keyword& keyword, Json& any) {
  const Json& value = keyword.value;
  const auto negated = [&](const Json& schema, const std::string& key) {
    return Negated({&schema, PointerTo(keyword.at(), key)});
  };
  if (keyword.name == "properties") {
    for (const auto& [key, schema] : value.items()) {
      NG_ASSIGN_OR_RETURN(const SchemaNode opposite, negated(schema, key));
      any.push_back(
          Json{{"type", "object"}, {"required", {key}}, {"properties", {{key, *opposite.json}}}});
    }
    return true;
  }
  if (keyword.name == "not") {
    any.push_back(value);
    return true;
  }
  if (keyword.name == "allOf" || keyword.name == "anyOf") {
    Json opposites = Json::array();
    for (size_t i = 0; i < value.size(); ++i) {
      NG_ASSIGN_OR_RETURN(const SchemaNode opposite, negated(value[i], absl::StrCat(i)));
      opposites.push_back(*opposite.json);
    }
    if (keyword.name == "anyOf") opposites = Json::array({Json{{"allOf", opposites}}});
    any.insert(any.end(), opposites.begin(), opposites.end());
    return true;
  }
  if (keyword.name != "$ref") return false;
  NG_ASSIGN_OR_RETURN(const SchemaNode target, Resolve(keyword.node));
  // A circle would come here again before it is known.
  negated_[keyword.node.json] =
      Made(Json{{"not", true}, {"type", "a circle of opposites"}}, keyword.node.at);
  NG_ASSIGN_OR_RETURN(const SchemaNode opposite, Negated(target));
  any.push_back(*opposite.json);
  return true;
}

bool SchemaNodes::Disjoint(const SchemaNode& a, const SchemaNode& b, int depth) {
  constexpr int kMaxDepth = 8;
  if (depth > kMaxDepth || !budget_.Spend(20)) return false;
  if (a.json->is_boolean() || b.json->is_boolean()) return *a.json == false || *b.json == false;
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    if (!one.json->is_object()) return false;
    if (!one.json->contains("$ref")) continue;
    const auto target = Resolve(one);
    if (target.ok() && Disjoint(*target, other, depth + 1)) return true;
    if (old_) return false;
  }
  const absl::StatusOr<unsigned> types_a = TypesOf(a);
  const absl::StatusOr<unsigned> types_b = TypesOf(b);
  if (!types_a.ok() || !types_b.ok()) return false;
  const unsigned types = *types_a & *types_b;
  if (types == 0) return true;
  const auto listed = [](const Json& json) {
    return json.contains("enum") || json.contains("const");
  };
  if (listed(*a.json) && listed(*b.json)) {
    const auto in_b = [&](const Json& value) {
      const auto list = b.json->find("enum");
      return list != b.json->end() ? Holds(*list, value) : Same(b.json->at("const"), value);
    };
    const auto list = a.json->find("enum");
    if (list == a.json->end()) return !in_b(a.json->at("const"));
    budget_.Spend(list->size());
    return std::ranges::none_of(*list, in_b);
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
