#include "plugins/sampler/grammar/schema/nodes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ng/ordered_json.h"

namespace ng::grammar {
namespace {

constexpr int kMaxNesting = 200;

// They say nothing about which values are valid.
constexpr std::string_view kSayNothing[] = {
    "title",           "description",    "default",
    "examples",        "$schema",        "$id",
    "$comment",        "deprecated",     "readOnly",
    "writeOnly",       "$defs",          "definitions",
    "$anchor",         "contentSchema",  "contentMediaType",
    "contentEncoding", "$dynamicAnchor", "$recursiveAnchor"};
constexpr std::string_view kRead[] = {"type",
                                      "enum",
                                      "const",
                                      "minimum",
                                      "maximum",
                                      "exclusiveMinimum",
                                      "exclusiveMaximum",
                                      "multipleOf",
                                      "minLength",
                                      "maxLength",
                                      "pattern",
                                      "format",
                                      "items",
                                      "prefixItems",
                                      "additionalItems",
                                      "minItems",
                                      "maxItems",
                                      "uniqueItems",
                                      "contains",
                                      "minContains",
                                      "maxContains",
                                      "properties",
                                      "patternProperties",
                                      "additionalProperties",
                                      "required",
                                      "propertyNames",
                                      "minProperties",
                                      "maxProperties",
                                      "dependentRequired",
                                      "dependentSchemas",
                                      "dependencies",
                                      "$ref",
                                      "$dynamicRef",
                                      "$recursiveRef",
                                      "allOf",
                                      "anyOf",
                                      "oneOf",
                                      "not",
                                      "if",
                                      "then",
                                      "else",
                                      "unevaluatedProperties",
                                      "unevaluatedItems"};

template <class List>
bool IsIn(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != std::end(list);
}

// What Alternatives takes apart.
constexpr std::string_view kCombine[] = {"$ref",  "$dynamicRef",     "$recursiveRef", kIs,  "allOf",
                                         "anyOf", "oneOf",           "not",           "if", "then",
                                         "else",  "dependentSchemas"};

// Keywords of a draft that those before and behind it do not have.
struct DraftKeyword {
  std::string_view name;
  SchemaDraft first, last;
};
constexpr DraftKeyword kDraftKeywords[] = {
    {"unevaluatedProperties", SchemaDraft::k2019, SchemaDraft::k2020},
    {"unevaluatedItems", SchemaDraft::k2019, SchemaDraft::k2020},
    {"$recursiveRef", SchemaDraft::k2019, SchemaDraft::k2019},
    {"$dynamicRef", SchemaDraft::k2020, SchemaDraft::k2020}};

// Whether anything is left of a schema when that is taken apart.
bool SaysMore(const Json& json) {
  return std::ranges::any_of(json.items(), [](const auto& item) {
    return !IsIn(kSayNothing, item.key()) && !IsIn(kCombine, item.key());
  });
}

// How deep brackets are within each other, outside of strings.
int Nesting(std::string_view text, Budget& budget) {
  int open = 0;
  int deepest = 0;
  bool in_string = false;
  budget.Spend(text.size() / 8);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++open);
    if (c == ']' || c == '}') --open;
  }
  return deepest;
}

// Of members with the same name the last one's value stays, in the place of the first.
void KeepOneOfEachName(Json& whole) {
  std::vector<Json*> to_do = {&whole};
  while (!to_do.empty()) {
    Json& value = *to_do.back();
    to_do.pop_back();
    if (value.is_object()) {
      auto& members = value.get_ref<Json::object_t&>();
      std::unordered_map<std::string, ptrdiff_t> place_of;
      Json::object_t kept;
      for (auto& [name, each] : members) {
        const auto [place, is_new] = place_of.emplace(name, std::ssize(kept));
        if (is_new) {
          kept.emplace_back(name, std::move(each));
        } else {
          (kept.begin() + place->second)->second = std::move(each);
        }
      }
      members = std::move(kept);
    }
    if (!value.is_structured()) continue;
    for (Json& each : value) to_do.push_back(&each);
  }
}

void AppendCanonical(const Json& value, std::string* text) {
  if (value.is_object()) {
    std::map<std::string, const Json*> sorted;
    for (const auto& [key, each] : value.items()) sorted[key] = &each;
    text->push_back('{');
    for (const auto& [key, each] : sorted) {
      absl::StrAppend(text, Json(key).dump(), ":");
      AppendCanonical(*each, text);
    }
    text->push_back('}');
  } else if (value.is_array()) {
    text->push_back('[');
    for (const Json& each : value) {
      AppendCanonical(each, text);
      text->push_back(',');
    }
    text->push_back(']');
  } else if (value.is_number_float() && IsOfType(value, "integer") &&
             std::abs(value.get<double>()) < 9e18) {
    absl::StrAppend(text, static_cast<int64_t>(value.get<double>()));
  } else {
    text->append(value.dump());
  }
}

bool HasMadeName(const Json& value) {
  if (value.is_object()) {
    for (const auto& [name, each] : value.items()) {
      if (name.starts_with(kIs[0])) return true;
    }
  }
  return value.is_structured() && std::any_of(value.begin(), value.end(), HasMadeName);
}

}  // namespace

std::optional<Json> ReadJson(std::string_view text) {
  OrderedJsonBuilder builder;
  if (!Json::sax_parse(text, &builder)) return std::nullopt;
  Json json = builder.Take();
  KeepOneOfEachName(json);
  return json;
}

std::string Canonical(const Json& value) {
  std::string text;
  AppendCanonical(value, &text);
  return text;
}

SchemaNode SchemaNode::Beside(const Json& below, std::string_view name) const {
  return {&below, PointerTo(at, name), evaluates, scope};
}

SchemaNode SchemaNode::Part(const Json& below, std::string_view name) const {
  return {&below, PointerTo(at, name), true, scope};
}

std::string PointerTo(const std::string& at, std::string_view name) {
  return absl::StrCat(at, "/", OneLine(name));
}

bool SaysUnevaluated(const Json& json) {
  return json.contains("unevaluatedProperties") || json.contains("unevaluatedItems");
}

bool SaysNothing(std::string_view keyword) { return IsIn(kSayNothing, keyword); }

absl::Status SchemaError(const std::string& at, const std::string& what) {
  return UsageError(absl::StrCat("at ", at, ": ", what));
}

bool Same(const Json& a, const Json& b) {
  const auto is_plain = [](const Json& value) {
    return value.is_string() || value.is_number_integer() || value.is_boolean() || value.is_null();
  };
  if (is_plain(a) && is_plain(b)) return a == b;
  return Canonical(a) == Canonical(b);
}

bool IsOfType(const Json& value, std::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (!value.is_number()) return false;
  const bool whole =
      !value.is_number_float() || std::trunc(value.get<double>()) == value.get<double>();
  return type == "number" || whole == (type == "integer");
}

absl::StatusOr<unsigned> TypesOf(const SchemaNode& node) {
  const auto found = node.json->find("type");
  if (found == node.json->end()) return kAllTypes;
  unsigned types = 0;
  const size_t n = found->is_array() ? found->size() : 1;
  for (size_t i = 0; i < n; ++i) {
    const Json& name = found->is_array() ? (*found)[i] : *found;
    const std::string text = name.is_string() ? name.get<std::string>() : name.dump();
    if (text == "number") types |= kIntegerType | kFractionType;
    const auto* const place = std::ranges::find(kTypes, std::string_view(text));
    if (place != std::end(kTypes)) types |= 1U << (place - std::begin(kTypes));
    if (text == "number" || place != std::end(kTypes)) continue;
    return SchemaError(PointerTo(node.at, "type"),
                       absl::StrCat("'", OneLine(text),
                                    "', must be null, boolean, integer, number, "
                                    "string, array or object"));
  }
  return types;
}

absl::StatusOr<std::unique_ptr<SchemaNodes>> SchemaNodes::Parse(std::string_view text,
                                                                const SchemaSpelling& spelling,
                                                                Budget& budget) {
  if (Nesting(text, budget) > kMaxNesting) {
    return UsageError(absl::StrCat("has more than ", kMaxNesting, " brackets within each other"));
  }
  NG_RETURN_IF_ERROR(budget.status());
  auto nodes = std::make_unique<SchemaNodes>(spelling, budget);
  std::optional<Json> read = ReadJson(text);
  if (!read) return UsageError("is no JSON text");
  nodes->root_ = *std::move(read);
  const Json& root = nodes->root_;
  if (!root.is_object() && !root.is_boolean()) {
    return UsageError("is no JSON schema: must be an object, true or false");
  }
  if (HasMadeName(root)) return UsageError("has a name that begins with U+0001");
  if (root.is_object() && root.contains("$schema") && root["$schema"].is_string()) {
    const auto name = root["$schema"].get<std::string>();
    const auto is = [&](const char* draft) {
      return name.find(absl::StrCat("://json-schema.org/", draft)) != name.npos;
    };
    if (is("draft-07/") || is("draft-06/")) {
      nodes->draft_ = SchemaDraft::k7;
    } else if (is("draft/2019-09/schema")) {
      nodes->draft_ = SchemaDraft::k2019;
    } else if (!is("draft/2020-12/schema")) {
      return SchemaError("#/$schema", absl::StrCat("'", OneLine(name), "' is not known"));
    }
  }
  NG_RETURN_IF_ERROR(nodes->references_.Read(root, nodes->draft_));
  return nodes;
}

bool SchemaNodes::Holds(const Json& list, const Json& value) {
  const auto [place, is_new] = values_.try_emplace(&list);
  if (is_new) {
    budget_.Spend(list.size());
    for (const Json& each : list) place->second.insert(Canonical(each));
  }
  return place->second.contains(Canonical(value));
}

SchemaNode SchemaNodes::Made(Json json, const std::string& at) {
  made_.push_back(std::move(json));
  return {&made_.back(), at};
}

Json SchemaNodes::Handle(const SchemaNode& node) {
  if (node.json->is_boolean()) return *node.json;
  const auto [place, is_new] = handle_of_.try_emplace({node.json, node.scope}, handles_.size());
  if (is_new) handles_.push_back(node);
  return Json{{kIs, place->second}};
}

Json SchemaNodes::Opposite(const SchemaNode& node) {
  if (node.json->is_boolean()) return !node.json->get<bool>();
  return Json{{"not", Handle(node)}};
}

SchemaNode SchemaNodes::Only(const Json& value) {
  Json schema = {{"type", value.is_object() ? "object" : "array"}};
  if (!value.is_structured()) schema = {{"const", value}};
  if (value.is_object()) {
    schema["additionalProperties"] = false;
    schema["properties"] = Json::object();
    schema["required"] = Json::array();
    for (const auto& [key, each] : value.items()) {
      schema["properties"][key] = Json{{"const", each}};
      schema["required"].push_back(key);
    }
  } else if (value.is_array()) {
    schema["minItems"] = schema["maxItems"] = value.size();
    schema["prefixItems"] = Json::array();
    for (const Json& each : value) schema["prefixItems"].push_back(Json{{"const", each}});
  }
  return Made(std::move(schema), "#");
}

absl::StatusOr<SchemaNode> SchemaNodes::Resolve(const SchemaNode& node,
                                                const std::string& keyword) {
  const Json& written = node.json->at(keyword);
  if (keyword == kIs) {
    SchemaNode found = handles_[written.get<size_t>()];
    found.evaluates = node.evaluates;
    return found;
  }
  const std::string at = PointerTo(node.at, keyword);
  if (!written.is_string()) return SchemaError(at, "must be a text");
  const auto reference = written.get<std::string>();
  const int32_t scope = references_.Within(*node.json, node.scope);
  const absl::StatusOr<const Json*> found =
      keyword == "$ref" ? references_.Find(*node.json, reference)
                        : references_.FindDynamic(*node.json, reference, scope);
  if (found.ok()) return SchemaNode{*found, reference, node.evaluates, scope};
  return SchemaError(
      at, absl::StrCat("'", OneLine(reference), "' ", std::string(found.status().message())));
}

absl::Status SchemaNodes::CheckKeywords(const SchemaNode& node) const {
  for (const auto& [name, value] : node.json->items()) {
    const bool made = name.starts_with(kIs[0]);
    if (!made && !IsIn(kSayNothing, name) && !IsIn(kRead, name)) {
      if (unknown_keywords_) continue;
      return SchemaError(node.at,
                         absl::StrCat("the keyword '", OneLine(name), "' is not supported"));
    }
    const auto* const of_draft = std::ranges::find(kDraftKeywords, name, &DraftKeyword::name);
    if (of_draft == std::end(kDraftKeywords)) continue;
    if (draft_ < of_draft->first || draft_ > of_draft->last) {
      return SchemaError(node.at, absl::StrCat(name, " is no keyword of this draft"));
    }
  }
  for (const char* name : {"allOf", "anyOf", "oneOf", "enum"}) {
    if (!node.json->contains(name) || (*node.json)[name].is_array()) continue;
    return SchemaError(PointerTo(node.at, name), "must be a list");
  }
  for (const char* name : {"properties", "patternProperties", "dependentSchemas",
                           "dependentRequired", "dependencies"}) {
    if (!node.json->contains(name) || (*node.json)[name].is_object()) continue;
    return SchemaError(PointerTo(node.at, name), "must be an object");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AllOf>> SchemaNodes::Alternatives(const AllOf& all) {
  std::vector<AllOf> found = {{}};
  unsigned types = kAllTypes;
  for (const SchemaNode& node : all) {
    NG_ASSIGN_OR_RETURN(const unsigned more, TypesHere(node));
    types &= more;
  }
  for (const SchemaNode& node : all) {
    Path path{.keys = {}, .types = types};
    NG_ASSIGN_OR_RETURN(const std::vector<AllOf> more, Expand(node, path));
    NG_RETURN_IF_ERROR(Multiply(more, found, node.at));
  }
  return found;
}

// Leaves each alternative once.
void SchemaNodes::DropRepeated(std::vector<AllOf>& alternatives) {
  if (alternatives.size() < 2) return;
  std::set<std::vector<std::pair<Key, bool>>> known;
  std::erase_if(alternatives, [&](const AllOf& all) {
    std::vector<std::pair<Key, bool>> key;
    for (const SchemaNode& node : all) key.push_back({{node.json, node.scope}, node.evaluates});
    std::ranges::sort(key);
    budget_.Spend(key.size() + 1);
    return !known.insert(std::move(key)).second;
  });
}

absl::Status SchemaNodes::Multiply(const std::vector<AllOf>& by, std::vector<AllOf>& found,
                                   const std::string& at) {
  if (by.size() * found.size() > kMaxAlternatives) {
    return SchemaError(at,
                       absl::StrCat("stands for more than ", kMaxAlternatives, " alternatives"));
  }
  std::vector<AllOf> products;
  for (AllOf& first : found) {
    for (const AllOf& second : by) {
      const bool left = budget_.Spend(8 * first.size() + first.size() * second.size() / 4 + 1);
      AllOf product = &second == &by.back() ? std::move(first) : first;
      if (!left) return SchemaError(at, std::string(budget_.status().message()));
      for (const SchemaNode& node : second) {
        const auto known = std::ranges::find_if(product, [&node](const SchemaNode& other) {
          return other.json == node.json && other.scope == node.scope;
        });
        if (known == product.end()) {
          product.push_back(node);
        } else {
          known->evaluates |= node.evaluates;
        }
      }
      // What asks for two types at once has no values.
      unsigned types = kAllTypes;
      for (const SchemaNode& node : product) {
        NG_ASSIGN_OR_RETURN(const unsigned more, TypesOf(node));
        types &= more;
      }
      if (types != 0) products.push_back(std::move(product));
    }
  }
  found = std::move(products);
  DropRepeated(found);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AllOf>> SchemaNodes::Expand(const SchemaNode& node, Path& path) {
  if (node.json->is_boolean()) {
    return node.json->get<bool>() ? std::vector<AllOf>{{}} : std::vector<AllOf>{};
  }
  if (!node.json->is_object()) return SchemaError(node.at, "is no schema");
  SchemaNode within = node;
  within.scope = references_.Within(*node.json, node.scope);
  const Key key(within.json, within.scope);
  if (std::ranges::find(path.keys, key) != path.keys.end()) {
    return SchemaError(node.at, "refers to itself without an end");
  }
  constexpr size_t kMaxPath = 500;
  if (path.keys.size() > kMaxPath) return SchemaError(node.at, "goes too deep");
  if (node.json->empty()) return std::vector<AllOf>{{}};
  NG_ASSIGN_OR_RETURN(const unsigned more, TypesHere(node));
  const unsigned around = std::exchange(path.types, path.types & more);
  const std::tuple in(key, node.evaluates, node.evaluates && InUnevaluated(path), path.types);
  auto known = expanded_.find(in);
  if (known == expanded_.end()) {
    path.keys.push_back(key);
    std::vector<AllOf> found;
    if (path.types != 0) {
      NG_ASSIGN_OR_RETURN(found, ExpandNew(within, path));
    }
    path.keys.pop_back();
    known = expanded_.emplace(in, std::move(found)).first;
  }
  path.types = around;
  budget_.Spend(known->second.size());
  return known->second;
}

absl::StatusOr<unsigned> SchemaNodes::TypesHere(const SchemaNode& node) const {
  const bool only_reference = draft_ == SchemaDraft::k7 && node.json->contains("$ref");
  if (!node.json->is_object() || only_reference) return kAllTypes;
  return TypesOf(node);
}

absl::StatusOr<std::vector<AllOf>> SchemaNodes::ExpandNew(const SchemaNode& node, Path& path) {
  if (!budget_.Spend(20 + node.json->size())) {
    return SchemaError(node.at, std::string(budget_.status().message()));
  }
  const bool only_reference = draft_ == SchemaDraft::k7 && node.json->contains("$ref");
  std::vector<AllOf> found = {{}};
  if (!only_reference) {
    NG_RETURN_IF_ERROR(CheckKeywords(node));
    if (SaysMore(*node.json)) found[0].push_back(node);
  }
  NG_RETURN_IF_ERROR(AddCombined(node, path, found));
  for (AllOf& all : found) NG_RETURN_IF_ERROR(AddUnevaluated(node, all));
  return found;
}

}  // namespace ng::grammar
