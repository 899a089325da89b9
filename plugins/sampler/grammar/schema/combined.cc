// What schemas say of other schemas: references, allOf, anyOf, oneOf, not, if, dependentSchemas and
// unevaluated..., turned into alternatives.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/schema/nodes.h"

namespace ng::grammar {
namespace {

std::vector<SchemaNode> Elements(const SchemaNode& node, const std::string& name) {
  std::vector<SchemaNode> found;
  const std::string at = PointerTo(node.at, name);
  const Json& list = node.json->at(name);
  for (size_t i = 0; i < list.size(); ++i) {
    found.push_back({&list[i], PointerTo(at, absl::StrCat(i)), node.evaluates});
  }
  return found;
}

}  // namespace

absl::Status SchemaNodes::AddCombined(const SchemaNode& node, Path& path,
                                      std::vector<AllOf>& found) {
  const Json& json = *node.json;
  const auto add = [&](absl::StatusOr<std::vector<AllOf>> more) {
    if (!more.ok()) return more.status();
    return Multiply(*more, found, node.at);
  };
  if (json.contains("$ref")) {
    NG_ASSIGN_OR_RETURN(const SchemaNode target, Resolve(node));
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
    NG_ASSIGN_OR_RETURN(SchemaNode negated, Negated({&json["not"], PointerTo(node.at, "not")}));
    negated.evaluates = false;
    NG_RETURN_IF_ERROR(add(Expand(negated, path)));
  }
  if (json.contains("if")) NG_RETURN_IF_ERROR(add(IfThenElse(node, path)));
  return AddDependent(node, path, found);
}

absl::StatusOr<std::vector<AllOf>> SchemaNodes::IfThenElse(const SchemaNode& node, Path& path) {
  const Json& json = *node.json;
  // By itself it matters for what it evaluates only.
  if (!json.contains("then") && !json.contains("else") && !InUnevaluated(path)) {
    return std::vector<AllOf>{{}};
  }
  const SchemaNode condition = {&json["if"], PointerTo(node.at, "if"), node.evaluates};
  NG_ASSIGN_OR_RETURN(SchemaNode opposite, Negated(condition));
  opposite.evaluates = false;
  std::vector<AllOf> found;
  for (const auto& [begin, name] : {std::pair(condition, "then"), std::pair(opposite, "else")}) {
    NG_ASSIGN_OR_RETURN(std::vector<AllOf> branch, Expand(begin, path));
    if (json.contains(name)) {
      NG_ASSIGN_OR_RETURN(const std::vector<AllOf> more,
                          Expand({&json[name], PointerTo(node.at, name), node.evaluates}, path));
      NG_RETURN_IF_ERROR(Multiply(more, branch, node.at));
    }
    found.insert(found.end(), branch.begin(), branch.end());
  }
  return found;
}

// Each property that asks for a schema is absent, or there and the schema holds.
absl::Status SchemaNodes::AddDependent(const SchemaNode& node, Path& path,
                                       std::vector<AllOf>& found) {
  for (const char* name : {"dependentSchemas", "dependencies"}) {
    if (!node.json->contains(name)) continue;
    for (const auto& [key, schema] : (*node.json)[name].items()) {
      if (schema.is_array()) continue;
      const std::string at = PointerTo(PointerTo(node.at, name), key);
      SchemaNode absent = Made(Json{{"properties", {{key, false}}}}, node.at);
      SchemaNode present = Made(Json{{"type", "object"}, {"required", {key}}}, at);
      absent.evaluates = present.evaluates = false;
      std::vector<AllOf> either = {{present}};
      NG_ASSIGN_OR_RETURN(const std::vector<AllOf> more,
                          Expand({&schema, at, node.evaluates}, path));
      NG_RETURN_IF_ERROR(Multiply(more, either, at));
      either.push_back({absent});
      NG_RETURN_IF_ERROR(Multiply(either, found, node.at));
    }
  }
  return absl::OkStatus();
}

bool SchemaNodes::InUnevaluated(const Path& path) {
  return std::ranges::any_of(path, [](const Json* json) { return SaysUnevaluated(*json); });
}

absl::StatusOr<std::vector<AllOf>> SchemaNodes::AnyOf(const std::vector<SchemaNode>& nodes,
                                                      Path& path) {
  const bool exact = InUnevaluated(path);
  std::vector<AllOf> found;
  for (const SchemaNode& node : nodes) {
    NG_ASSIGN_OR_RETURN(const std::vector<AllOf> more, Expand(node, path));
    // All that hold evaluate: then several at once are alternatives of their own.
    std::vector<AllOf> together = exact ? found : std::vector<AllOf>();
    if (exact) NG_RETURN_IF_ERROR(Multiply(more, together, node.at));
    found.insert(found.end(), more.begin(), more.end());
    found.insert(found.end(), together.begin(), together.end());
    if (found.size() > kMaxAlternatives) {
      return SchemaError(node.at, absl::StrCat("is beyond ", kMaxAlternatives, " alternatives"));
    }
  }
  DropRepeated(found);
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
      NG_ASSIGN_OR_RETURN(SchemaNode other, Negated(nodes[j]));
      other.evaluates = false;
      NG_ASSIGN_OR_RETURN(const std::vector<AllOf> more, Expand(other, path));
      NG_RETURN_IF_ERROR(Multiply(more, one, nodes[j].at));
    }
    found.insert(found.end(), one.begin(), one.end());
    if (found.size() > kMaxAlternatives) {
      return SchemaError(nodes[i].at, absl::StrCat("oneOf stands for more than ", kMaxAlternatives,
                                                   " alternatives"));
    }
  }
  return found;
}

// As a schema that names what these evaluate and says of the others what the node says.
absl::Status SchemaNodes::AddUnevaluated(const SchemaNode& node, AllOf& all) {
  if (!SaysUnevaluated(*node.json)) return absl::OkStatus();
  Json made = Json::object();
  const auto evaluated = [&](const char* keyword) {
    return std::ranges::any_of(all, [keyword](const SchemaNode& other) {
      return other.evaluates && other.json->contains(keyword);
    });
  };
  const auto properties = node.json->find("unevaluatedProperties");
  if (properties != node.json->end() && !evaluated("additionalProperties")) {
    made["additionalProperties"] = *properties;
    for (const SchemaNode& other : all) {
      for (const char* keyword : {"properties", "patternProperties"}) {
        if (!other.evaluates || !other.json->contains(keyword)) continue;
        for (const auto& [key, schema] : (*other.json)[keyword].items()) made[keyword][key] = true;
      }
    }
  }
  if (node.json->contains("unevaluatedItems")) {
    NG_ASSIGN_OR_RETURN(const Json items, UnevaluatedItems(node, all));
    made.update(items);
  }
  // The same again for the same, so that a schema that refers to itself comes to an end.
  const auto [place, is_new] = unevaluated_.try_emplace({node.json, made.dump()});
  if (is_new) place->second = Made(std::move(made), node.at);
  all.push_back(place->second);
  all.back().evaluates = node.evaluates;
  return absl::OkStatus();
}

absl::StatusOr<Json> SchemaNodes::UnevaluatedItems(const SchemaNode& node, const AllOf& all) const {
  Json prefix = Json::array();
  bool every = false;
  for (const SchemaNode& other : all) {
    if (!other.evaluates) continue;
    const Json& json = *other.json;
    if (json.contains("contains") || (json.contains("items") && json["items"].is_array())) {
      return SchemaError(PointerTo(node.at, "unevaluatedItems"),
                         "is not supported together with contains or a list of items");
    }
    every |= json.contains("items");
    if (!json.contains("prefixItems") || !json["prefixItems"].is_array()) continue;
    while (prefix.size() < json["prefixItems"].size()) prefix.push_back(true);
  }
  if (every) return Json::object();
  Json made = {{"items", node.json->at("unevaluatedItems")}};
  if (!prefix.empty()) made["prefixItems"] = prefix;
  return made;
}

}  // namespace ng::grammar
