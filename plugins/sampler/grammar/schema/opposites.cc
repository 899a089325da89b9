// What a schema does not allow, and whether two schemas have a value in common.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/schema/nodes.h"

namespace ng::grammar {
namespace {

constexpr int kMaxDisjoint = 8;  // how deep Disjoint looks

Json NotOfType(unsigned types) {
  Json names = Json::array();
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if ((types & (1U << i)) == 0) names.push_back(std::string(kTypes[i]));
  }
  if (names.empty()) return false;
  return Json{{"type", names}};
}

}  // namespace

unsigned PossibleTypes(const SchemaNode& node, Budget& budget) {
  const absl::StatusOr<unsigned> types = TypesOf(node);
  if (!types.ok()) return kAllTypes;
  const auto one = node.json->find("const");
  const auto list = node.json->find("enum");
  if (one == node.json->end() && list == node.json->end()) return *types;
  unsigned listed = 0;
  const auto add = [&listed](const Json& value) {
    for (size_t i = 0; i < std::size(kTypes); ++i) {
      if (IsOfType(value, kTypes[i])) listed |= 1U << i;
    }
  };
  if (one != node.json->end()) {
    add(*one);
  } else {
    budget.Spend(list->size());
    for (const Json& value : *list) add(value);
  }
  return *types & listed;
}

struct SchemaNodes::Keyword {
  const SchemaNode& node;
  const std::string& name;
  const Json& value;

  std::string at() const { return PointerTo(node.at, name); }
  // What stands in it under a name.
  SchemaNode Part(const Json& below, std::string_view key) const {
    return node.Part(value, name).Part(below, key);
  }
  SchemaNode Whole() const { return node.Part(value, name); }
};

absl::StatusOr<SchemaNode> SchemaNodes::Negated(const SchemaNode& written) {
  SchemaNode node = written;
  while (node.json->is_object() && node.json->contains(kIs)) {
    NG_ASSIGN_OR_RETURN(node, Resolve(node, kIs));
  }
  node.scope = references_.Within(*node.json, node.scope);
  const Key key(node.json, node.scope);
  if (const auto found = negated_.find(key); found != negated_.end()) return found->second;
  if (!node.json->is_boolean() && !node.json->is_object()) {
    return SchemaError(node.at, "is no schema");
  }
  Json any = Json::array();
  if (node.json->is_boolean()) {
    if (*node.json == false) any.push_back(true);
  } else {
    NG_RETURN_IF_ERROR(CheckKeywords(node));
    for (const auto& [name, value] : node.json->items()) {
      const bool reference = draft_ == SchemaDraft::k7 && node.json->contains("$ref");
      if (reference && name != "$ref") continue;
      NG_RETURN_IF_ERROR(NegateKeyword({node, name, value}, any));
    }
  }
  SchemaNode made = any.empty() ? Made(false, node.at) : Made(Json{{"anyOf", any}}, node.at);
  made.evaluates = false;
  return negated_[key] = made;
}

// Adds to `any` what makes a value break this keyword.
absl::Status SchemaNodes::NegateKeyword(const Keyword& keyword, Json& any) {
  // They say nothing, or something to another keyword.
  constexpr std::string_view kWithOthers[] = {"then", "else", "minContains", "maxContains"};
  const bool says_nothing = SaysNothing(keyword.name) ||
                            (keyword.name == "format" && !assert_formats_) ||
                            std::ranges::find(kWithOthers, keyword.name) != std::end(kWithOthers);
  budget_.Spend(4);
  if (keyword.name.starts_with("unevaluated") && keyword.value == true) return absl::OkStatus();
  if (says_nothing || NegateValues(keyword, any)) return absl::OkStatus();
  if (keyword.name == "type") {
    NG_ASSIGN_OR_RETURN(const unsigned types, TypesOf(keyword.node));
    any.push_back(NotOfType(types));
    return absl::OkStatus();
  }
  for (const auto negate : {&SchemaNodes::NegateElements, &SchemaNodes::NegateProperties,
                            &SchemaNodes::NegateCombined}) {
    NG_ASSIGN_OR_RETURN(const bool known, (this->*negate)(keyword, any));
    if (known) return absl::OkStatus();
  }
  NG_ASSIGN_OR_RETURN(const bool known, NegateLimit(keyword, any));
  if (known) return absl::OkStatus();
  return SchemaError(keyword.at(),
                     "the opposite of this keyword is not supported, and not, if or oneOf "
                     "asks for it");
}

// Whether the keyword lists values, or is about what one value alone must look like.
bool SchemaNodes::NegateValues(const Keyword& keyword, Json& any) {
  if (keyword.name == "pattern") {
    any.push_back(Json{{"type", "string"}, {kLacks, Json::array({keyword.value})}});
    return true;
  }
  if (keyword.name == "multipleOf") {
    any.push_back(Json{{"type", "number"}, {kNoMultiple, keyword.value}});
    return true;
  }
  if (keyword.name != "const" && keyword.name != "enum") return false;
  const Json list = keyword.name == "const" ? Json::array({keyword.value}) : keyword.value;
  Json differs = {{kDiffers, Json::array()}, {"allOf", Json::array()}};
  for (const Json& value : list) {
    if (value.is_structured()) {
      differs["allOf"].push_back(Opposite(Only(value)));
    } else {
      differs[kDiffers].push_back(value);
    }
  }
  budget_.Spend(list.size());
  any.push_back(std::move(differs));
  return true;
}

// Whether the keyword is a bound, or a list of properties that must be there.
absl::StatusOr<bool> SchemaNodes::NegateLimit(const Keyword& keyword, Json& any) {
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
  if (count != std::end(kCounts)) {
    const bool whole = value.is_number() && IsOfType(value, "integer");
    const double bound = whole ? value.get<double>() : -1;
    if (bound < 0) return false;
    const auto n = static_cast<int64_t>(std::min<double>(bound, Count::kLargest)) + count->more;
    // At least 0 holds always, and so does at most what no answer has.
    if (n >= 0 && n <= Count::kLargest) {
      any.push_back(Json{{"type", count->type}, {count->keyword, n}});
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

// Whether the keyword is about elements.
absl::StatusOr<bool> SchemaNodes::NegateElements(const Keyword& keyword, Json& any) {
  const Json& json = *keyword.node.json;
  const Json& value = keyword.value;
  const bool is_list = value.is_array();
  if (keyword.name == "uniqueItems" && value == false) return true;
  if (keyword.name == "contains") {
    // Too few of them, or too many.
    const Json least = json.value("minContains", Json(1));
    const Json most = json.value("maxContains", Json(Count::kLargest));
    for (const Json& bound : {least, most}) {
      const bool counts = bound.is_number() && IsOfType(bound, "integer") && bound >= 0;
      if (!counts) return SchemaError(keyword.node.at, "a number of elements must be whole");
    }
    Json some = {{"type", "array"}, {"contains", Handle(keyword.Whole())}, {"minContains", 0}};
    if (least > 0 && least <= Count::kLargest) {
      some["maxContains"] = least.get<int64_t>() - 1;
      any.push_back(some);
      some.erase("maxContains");
    }
    if (most < Count::kLargest) {
      some["minContains"] = most.get<int64_t>() + 1;
      any.push_back(some);
    }
    return true;
  }
  if (is_list && (keyword.name == "prefixItems" || keyword.name == "items")) {
    Json before = Json::array();
    for (size_t i = 0; i < value.size(); ++i) {
      before.push_back(Opposite(keyword.Part(value[i], absl::StrCat(i))));
      any.push_back(Json{{"type", "array"}, {"minItems", i + 1}, {"prefixItems", before}});
      before.back() = true;
      if (!budget_.Spend(8 * i + 8)) break;
    }
    return true;
  }
  const auto items = json.find("items");
  const bool old_list = items != json.end() && items->is_array();
  if (keyword.name == "additionalItems" && !old_list) return true;
  if (keyword.name != "items" && keyword.name != "additionalItems") return false;
  if (value == true) return true;
  const auto prefix = old_list ? items : json.find("prefixItems");
  const size_t first = prefix != json.end() && prefix->is_array() ? prefix->size() : 0;
  any.push_back(Json{{"type", "array"}, {"contains", Opposite(keyword.Whole())}, {kFrom, first}});
  return true;
}

// Whether the keyword is about properties.
absl::StatusOr<bool> SchemaNodes::NegateProperties(const Keyword& keyword, Json& any) {
  const Json& value = keyword.value;
  const auto name = [&](Json schema) {
    any.push_back(Json{{"type", "object"}, {kHasName, std::move(schema)}});
  };
  const auto only_false = [&](const Json& schema, const std::string& at) {
    if (schema == false) return absl::OkStatus();
    return SchemaError(at,
                       "the opposite of what properties say that are not named is supported where "
                       "it is false; not, if or oneOf asks for it");
  };
  if (keyword.name == "properties") {
    for (const auto& [key, schema] : value.items()) {
      any.push_back(Json{{"type", "object"},
                         {"required", {key}},
                         {"properties", {{key, Opposite(keyword.Part(schema, key))}}}});
    }
    return true;
  }
  if (keyword.name == "propertyNames") {
    name(Opposite(keyword.Whole()));
    return true;
  }
  if (keyword.name == "patternProperties") {
    for (const auto& [pattern, schema] : value.items()) {
      if (schema == true || schema == Json::object()) continue;
      NG_RETURN_IF_ERROR(only_false(schema, PointerTo(keyword.at(), pattern)));
      name(Json{{"pattern", pattern}});
    }
    return true;
  }
  if (keyword.name == "additionalProperties") {
    if (value == true || value == Json::object()) return true;
    NG_RETURN_IF_ERROR(only_false(value, keyword.at()));
    Json others = {{kDiffers, Json::array()}, {kLacks, Json::array()}};
    for (const auto& [named, list] :
         {std::pair("properties", kDiffers), std::pair("patternProperties", kLacks)}) {
      const auto found = keyword.node.json->find(named);
      if (found == keyword.node.json->end()) continue;
      for (const auto& [key, schema] : found->items()) others[list].push_back(key);
      budget_.Spend(found->size());
    }
    name(std::move(others));
    return true;
  }
  const bool dependent = keyword.name.starts_with("dependent") || keyword.name == "dependencies";
  if (!dependent) return false;
  for (const auto& [key, needs] : value.items()) {
    Json present = {{"type", "object"}, {"required", {key}}};
    if (!needs.is_array()) {
      present["allOf"] = Json::array({Opposite(keyword.Part(needs, key))});
      any.push_back(std::move(present));
      continue;
    }
    for (const Json& need : needs) {
      if (!need.is_string()) return SchemaError(keyword.at(), "a name must be a text");
      present["properties"] = Json{{need.get<std::string>(), false}};
      any.push_back(present);
    }
  }
  return true;
}

// Whether the keyword says something by other schemas.
absl::StatusOr<bool> SchemaNodes::NegateCombined(const Keyword& keyword, Json& any) {
  const Json& json = *keyword.node.json;
  const std::string& name = keyword.name;
  if (name == "not") {
    any.push_back(Handle(keyword.Whole()));
    return true;
  }
  if (name == "$ref" || name == "$dynamicRef" || name == "$recursiveRef") {
    NG_ASSIGN_OR_RETURN(const SchemaNode target, Resolve(keyword.node, name));
    any.push_back(Opposite(target));
    return true;
  }
  if (name == "if") {
    const Json condition = Handle(keyword.Whole());
    const Json opposite = Opposite(keyword.Whole());
    for (const auto& [begin, branch] :
         {std::pair(condition, "then"), std::pair(opposite, "else")}) {
      const auto found = json.find(branch);
      if (found == json.end()) continue;
      any.push_back(
          Json{{"allOf", Json::array({begin, Opposite(keyword.node.Part(*found, branch))})}});
    }
    return true;
  }
  if (name != "allOf" && name != "anyOf" && name != "oneOf") return false;
  std::vector<SchemaNode> nodes;
  Json opposites = Json::array();
  for (size_t i = 0; i < keyword.value.size(); ++i) {
    nodes.push_back(keyword.Part(keyword.value[i], absl::StrCat(i)));
    opposites.push_back(Opposite(nodes.back()));
  }
  if (name == "allOf") {
    any.insert(any.end(), opposites.begin(), opposites.end());
    return true;
  }
  any.push_back(Json{{"allOf", std::move(opposites)}});  // none of them
  if (name == "oneOf") AddTwoOf(nodes, any);
  return true;
}

// Whether it is certain from what a schema itself says, or all that it refers to.
bool SchemaNodes::Disjoint(const SchemaNode& a, const SchemaNode& b, unsigned types, int depth) {
  if (depth > kMaxDisjoint || !budget_.Spend(20)) return false;
  if (a.json->is_boolean() || b.json->is_boolean()) return *a.json == false || *b.json == false;
  if (!a.json->is_object() || !b.json->is_object()) return false;
  if (DisjointCombined(a, b, types, depth) || DisjointCombined(b, a, types, depth)) return true;
  const auto only_reference = [this](const Json& json) {
    return draft_ == SchemaDraft::k7 && json.contains("$ref");
  };
  if (only_reference(*a.json) || only_reference(*b.json)) return false;
  types &= PossibleTypes(a, budget_) & PossibleTypes(b, budget_);
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
  if (types != kObjectType) return false;
  return DisjointProperties(a, b, depth) || DisjointProperties(b, a, depth);
}

bool SchemaNodes::DisjointCombined(const SchemaNode& a, const SchemaNode& b, unsigned types,
                                   int depth) {
  for (const char* name : {"$ref", "$dynamicRef", "$recursiveRef", kIs}) {
    if (!a.json->contains(name)) continue;
    const auto target = Resolve(a, name);
    if (target.ok() && Disjoint(*target, b, types, depth + 1)) return true;
    if (draft_ == SchemaDraft::k7) return false;
  }
  for (const char* name : {"allOf", "anyOf", "oneOf"}) {
    const auto list = a.json->find(name);
    if (list == a.json->end() || !list->is_array() || list->empty()) continue;
    const auto disjoint = [&](const Json& each) {
      return Disjoint(a.Part(*list, name).Part(each, ""), b, types, depth + kMaxDisjoint / 2);
    };
    const bool all = std::string_view(name) == "allOf";
    if (all ? std::ranges::any_of(*list, disjoint) : std::ranges::all_of(*list, disjoint)) {
      return true;
    }
  }
  return false;
}

// Whether a property that `b` requires cannot be as both say.
bool SchemaNodes::DisjointProperties(const SchemaNode& a, const SchemaNode& b, int depth) {
  const auto member = [this](const Json& json, const char* keyword, const std::string& key) {
    const auto found = json.find(keyword);
    return found == json.end() || !found->is_object() ? nullptr : Member(*found, key);
  };
  const auto required = b.json->find("required");
  if (required == b.json->end() || !required->is_array()) return false;
  for (const Json& name : *required) {
    if (!name.is_string() || !budget_.Spend(8)) return false;
    const auto key = name.get<std::string>();
    const Json* in_a = member(*a.json, "properties", key);
    const auto others = a.json->find("additionalProperties");
    if (in_a == nullptr && others != a.json->end() && !a.json->contains("patternProperties")) {
      in_a = &*others;
    }
    const Json* const in_b = member(*b.json, "properties", key);
    if (in_a == nullptr) continue;
    if (*in_a == false) return true;
    if (in_b == nullptr) continue;
    // Nothing that is said of them has a place.
    const SchemaNode part_of_a{.json = in_a, .at = "", .scope = a.scope};
    const SchemaNode part_of_b{.json = in_b, .at = "", .scope = b.scope};
    if (Disjoint(part_of_a, part_of_b, kAllTypes, depth + 1)) return true;
  }
  return false;
}

}  // namespace ng::grammar
