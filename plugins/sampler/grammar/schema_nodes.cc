#include "plugins/sampler/grammar/schema_nodes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng::grammar {
namespace {

constexpr size_t kMaxAlternatives = 200;
constexpr int kMaxNesting = 200;

// They say nothing about which values are valid.
constexpr std::string_view kSayNothing[] = {"title",           "description",   "default",
                                            "examples",        "$schema",       "$id",
                                            "$comment",        "deprecated",    "readOnly",
                                            "writeOnly",       "$defs",         "definitions",
                                            "$anchor",         "contentSchema", "contentMediaType",
                                            "contentEncoding", "$dynamicAnchor"};
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
                                      "allOf",
                                      "anyOf",
                                      "oneOf",
                                      "not",
                                      "if",
                                      "then",
                                      "else",
                                      "_differs"};

template <class List>
bool Lists(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != std::end(list);
}

// How deep brackets are within each other, outside of strings.
int Nesting(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

std::vector<SchemaNode> Elements(const SchemaNode& node, const std::string& name) {
  std::vector<SchemaNode> found;
  const std::string at = PointerTo(node.at, name);
  const Json& list = node.json->at(name);
  for (size_t i = 0; i < list.size(); ++i) {
    found.push_back({&list[i], PointerTo(at, absl::StrCat(i))});
  }
  return found;
}

const Json* FindAnchor(const Json& json, const std::string& name) {
  if (json.is_object()) {
    const auto anchor = json.find("$anchor");
    if (anchor != json.end() && *anchor == name) return &json;
  }
  if (!json.is_structured()) return nullptr;
  for (const Json& value : json) {
    if (const Json* found = FindAnchor(value, name)) return found;
  }
  return nullptr;
}

}  // namespace

std::string PointerTo(const std::string& at, std::string_view name) {
  return absl::StrCat(at, "/", OneLine(name));
}

absl::Status SchemaError(const std::string& at, const std::string& what) {
  return UsageError(absl::StrCat("at ", at, ": ", what));
}

bool Same(const Json& a, const Json& b) { return nlohmann::json(a) == nlohmann::json(b); }

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
  const Json list = found->is_array() ? *found : Json::array({*found});
  unsigned types = 0;
  for (const Json& name : list) {
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

absl::StatusOr<std::unique_ptr<SchemaNodes>> SchemaNodes::Parse(std::string_view text) {
  if (Nesting(text) > kMaxNesting) {
    return UsageError(absl::StrCat("has more than ", kMaxNesting, " brackets within each other"));
  }
  auto nodes = std::make_unique<SchemaNodes>();
  nodes->root_ = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Json& root = nodes->root_;
  if (root.is_discarded()) return UsageError("is no JSON text");
  if (!root.is_object() && !root.is_boolean()) {
    return UsageError("is no JSON schema: must be an object, true or false");
  }
  if (root.is_object() && root.contains("$schema") && root["$schema"].is_string()) {
    const auto name = root["$schema"].get<std::string>();
    const auto is = [&](const char* draft) {
      return name.find(absl::StrCat("://json-schema.org/", draft)) != name.npos;
    };
    nodes->old_ = is("draft-07/") || is("draft-06/");
    if (!nodes->old_ && !is("draft/2020-12/schema") && !is("draft/2019-09/schema")) {
      return SchemaError("#/$schema", absl::StrCat("'", OneLine(name), "' is not known"));
    }
  }
  return nodes;
}

SchemaNode SchemaNodes::Made(Json json, const std::string& at) {
  made_.push_back(std::move(json));
  return {&made_.back(), at};
}

absl::StatusOr<SchemaNode> SchemaNodes::Resolve(const std::string& reference,
                                                const std::string& at) {
  const auto refused = [&](const char* why) {
    return SchemaError(at, absl::StrCat("'", OneLine(reference), "' ", why));
  };
  if (reference.empty() || reference[0] != '#') {
    return refused("is outside of the schema; only references that begin with # are read");
  }
  if (reference == "#") return root();
  if (reference[1] != '/') {
    const Json* found = FindAnchor(root_, reference.substr(1));
    if (found == nullptr) return refused("is an anchor that is not there");
    return SchemaNode{found, reference};
  }
  const Json* now = &root_;
  for (size_t begin = 2; begin <= reference.size();) {
    const size_t end = std::min(reference.find('/', begin), reference.size());
    std::string name;
    for (size_t i = begin; i < end; ++i) {
      char c = reference[i];
      if (c == '~' && i + 1 < end) c = reference[++i] == '0' ? '~' : '/';
      if (c == '%' && i + 2 < end) {
        c = static_cast<char>(std::strtol(reference.substr(i + 1, 2).c_str(), nullptr, 16));
        i += 2;
      }
      name += c;
    }
    const bool is_index =
        !name.empty() && name.size() < 7 && name.find_first_not_of("0123456789") == name.npos;
    if (now->is_object() && now->contains(name)) {
      now = &now->at(name);
    } else if (now->is_array() && is_index && std::stoul(name) < now->size()) {
      now = &now->at(std::stoul(name));
    } else {
      return refused("is not there");
    }
    if (now->is_object() && now->contains("$id") && now->at("$id").is_string() &&
        end < reference.size()) {
      return refused("goes through a schema with an $id of its own");
    }
    begin = end + 1;
  }
  return SchemaNode{now, reference};
}

absl::Status SchemaNodes::CheckKeywords(const SchemaNode& node) const {
  for (const auto& [name, value] : node.json->items()) {
    if (Lists(kSayNothing, name) || Lists(kRead, name)) continue;
    return SchemaError(node.at, absl::StrCat("the keyword '", OneLine(name), "' is not supported"));
  }
  const bool nested_id = node.json->contains("$id") && node.json != &root_ &&
                         (*node.json)["$id"].is_string() &&
                         !(*node.json)["$id"].get<std::string>().starts_with("#");
  if (nested_id) return SchemaError(node.at, "an $id below the root is not supported");
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
  for (const SchemaNode& node : all) {
    Path path;
    NG_ASSIGN_OR_RETURN(const std::vector<AllOf> more, Expand(node, path));
    NG_RETURN_IF_ERROR(Multiply(more, found, node.at));
  }
  return found;
}

absl::Status SchemaNodes::Multiply(const std::vector<AllOf>& by, std::vector<AllOf>& found,
                                   const std::string& at) const {
  if (by.size() * found.size() > kMaxAlternatives) {
    return SchemaError(at,
                       absl::StrCat("stands for more than ", kMaxAlternatives, " alternatives"));
  }
  std::vector<AllOf> products;
  for (const AllOf& first : found) {
    for (const AllOf& second : by) {
      AllOf& product = products.emplace_back(first);
      for (const SchemaNode& node : second) {
        const bool known = std::ranges::find(first, node.json, &SchemaNode::json) != first.end();
        if (!known) product.push_back(node);
      }
    }
  }
  found = std::move(products);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AllOf>> SchemaNodes::Expand(const SchemaNode& node, Path& path) {
  if (node.json->is_boolean()) {
    return node.json->get<bool>() ? std::vector<AllOf>{{}} : std::vector<AllOf>{};
  }
  if (!node.json->is_object()) return SchemaError(node.at, "is no schema");
  if (std::ranges::find(path, node.json) != path.end())
    return SchemaError(node.at, "refers to itself without an end");
  constexpr size_t kMaxPath = 500;
  if (path.size() > kMaxPath) return SchemaError(node.at, "goes too deep");
  if (node.json->empty()) return std::vector<AllOf>{{}};
  path.push_back(node.json);
  const bool only_reference = old_ && node.json->contains("$ref");
  std::vector<AllOf> found = {{}};
  if (!only_reference) {
    NG_RETURN_IF_ERROR(CheckKeywords(node));
    found[0].push_back(node);
  }
  NG_RETURN_IF_ERROR(AddCombined(node, path, found));
  path.pop_back();
  return found;
}

absl::Status SchemaNodes::AddCombined(const SchemaNode& node, Path& path,
                                      std::vector<AllOf>& found) {
  const Json& json = *node.json;
  const auto part = [&](const char* name) {
    return SchemaNode{&json.at(name), PointerTo(node.at, name)};
  };
  const auto add = [&](absl::StatusOr<std::vector<AllOf>> more) {
    if (!more.ok()) return more.status();
    return Multiply(*more, found, node.at);
  };
  if (json.contains("$ref")) {
    if (!json["$ref"].is_string()) return SchemaError(node.at, "$ref must be a text");
    NG_ASSIGN_OR_RETURN(const SchemaNode target,
                        Resolve(json["$ref"].get<std::string>(), PointerTo(node.at, "$ref")));
    NG_RETURN_IF_ERROR(add(Expand(target, path)));
    if (old_) return absl::OkStatus();
  }
  if (json.contains("allOf")) {
    for (const SchemaNode& each : Elements(node, "allOf")) {
      NG_RETURN_IF_ERROR(add(Expand(each, path)));
    }
  }
  if (json.contains("anyOf")) NG_RETURN_IF_ERROR(add(AnyOf(Elements(node, "anyOf"), path)));
  if (json.contains("oneOf")) NG_RETURN_IF_ERROR(add(OneOf(Elements(node, "oneOf"), path)));
  if (json.contains("not")) {
    NG_ASSIGN_OR_RETURN(const SchemaNode negated, Negated(part("not")));
    NG_RETURN_IF_ERROR(add(Expand(negated, path)));
  }
  if (json.contains("if") && (json.contains("then") || json.contains("else"))) {
    const SchemaNode yes = json.contains("then") ? part("then") : Made(true, node.at);
    const SchemaNode no = json.contains("else") ? part("else") : Made(true, node.at);
    NG_ASSIGN_OR_RETURN(const SchemaNode otherwise, Negated(part("if")));
    const auto both = [&](const SchemaNode& a, const SchemaNode& b) {
      return Made(Json{{"allOf", Json::array({*a.json, *b.json})}}, a.at);
    };
    NG_RETURN_IF_ERROR(add(AnyOf({both(part("if"), yes), both(otherwise, no)}, path)));
  }
  for (const char* name : {"dependentSchemas", "dependencies"}) {
    if (!json.contains(name)) continue;
    for (const auto& [key, schema] : json[name].items()) {
      if (schema.is_array()) continue;
      const SchemaNode absent = Made(Json{{"properties", {{key, false}}}}, node.at);
      const SchemaNode present =
          Made(Json{{"type", "object"}, {"required", {key}}, {"allOf", Json::array({schema})}},
               PointerTo(PointerTo(node.at, name), key));
      NG_RETURN_IF_ERROR(add(AnyOf({absent, present}, path)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AllOf>> SchemaNodes::AnyOf(const std::vector<SchemaNode>& nodes,
                                                      Path& path) {
  std::vector<AllOf> found;
  for (const SchemaNode& node : nodes) {
    NG_ASSIGN_OR_RETURN(const std::vector<AllOf> more, Expand(node, path));
    found.insert(found.end(), more.begin(), more.end());
    if (found.size() > kMaxAlternatives) {
      return SchemaError(node.at, absl::StrCat("is beyond ", kMaxAlternatives, " alternatives"));
    }
  }
  return found;
}

// Exactly one: each together with the opposite of those that may allow the same value.
absl::StatusOr<std::vector<AllOf>> SchemaNodes::OneOf(const std::vector<SchemaNode>& nodes,
                                                      Path& path) {
  std::vector<AllOf> found;
  for (size_t i = 0; i < nodes.size(); ++i) {
    NG_ASSIGN_OR_RETURN(std::vector<AllOf> one, Expand(nodes[i], path));
    for (size_t j = 0; j < nodes.size(); ++j) {
      if (j == i || one.empty() || Disjoint(nodes[i], nodes[j])) continue;
      NG_ASSIGN_OR_RETURN(const SchemaNode other, Negated(nodes[j]));
      NG_ASSIGN_OR_RETURN(const std::vector<AllOf> more, Expand(other, path));
      NG_RETURN_IF_ERROR(Multiply(more, one, nodes[j].at));
    }
    found.insert(found.end(), one.begin(), one.end());
    if (found.size() > kMaxAlternatives) {
      return SchemaError(nodes[i].at, "oneOf stands for too many alternatives");
    }
  }
  return found;
}

}  // namespace ng::grammar
