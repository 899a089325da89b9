// What schemas say of other schemas: references, allOf, anyOf, oneOf, not, if, dependentSchemas and
// unevaluated..., turned into alternatives.
#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/schema/nodes.h"

namespace ng::grammar {
namespace {

std::vector<SchemaNode> Elements(const SchemaNode& node, const std::string& name) {
  std::vector<SchemaNode> found;
  const SchemaNode list = node.Beside(node.json->at(name), name);
  for (size_t i = 0; i < list.json->size(); ++i) {
    found.push_back(list.Beside((*list.json)[i], absl::StrCat(i)));
  }
  return found;
}

// The values that one of schemas lists which hold at once.
std::optional<std::vector<const Json*>> ValuesListed(const std::vector<SchemaNode>& together) {
  for (const SchemaNode& node : together) {
    const auto one = node.json->find("const");
    if (one != node.json->end()) return std::vector<const Json*>{&*one};
    const auto list = node.json->find("enum");
    if (list == node.json->end() || !list->is_array()) continue;
    std::vector<const Json*> values;
    for (const Json& value : *list) values.push_back(&value);
    return values;
  }
  return std::nullopt;
}

}  // namespace

void SchemaNodes::AddTogether(const SchemaNode& node, std::vector<SchemaNode>& found, int depth) {
  constexpr int kMaxDepth = 8;
  constexpr size_t kMost = 16;
  if (depth > kMaxDepth || found.size() >= kMost || !node.json->is_object()) return;
  if (!budget_.Spend(8)) return;
  for (const char* name : {"$ref", "$dynamicRef", "$recursiveRef", kIs}) {
    if (!node.json->contains(name)) continue;
    const auto target = Resolve(node, name);
    if (target.ok()) AddTogether(*target, found, depth + 1);
    if (draft_ == SchemaDraft::k7) return;
  }
  found.push_back(node);
  const auto all = node.json->find("allOf");
  if (all == node.json->end() || !all->is_array()) return;
  for (size_t i = 0; i < all->size() && i < kMost; ++i) {
    AddTogether(node.Part((*all)[i], ""), found, depth + 1);
  }
}

// A value that two schemas allow is looked for only where it may be: most lists tell their schemas
// apart by the values that these list, or by those of one property that all of them ask for. So
// each such schema has marks, one of which each of its values has.
class SchemaNodes::Meetings {
 public:
  // Of values of these types.
  Meetings(SchemaNodes& nodes, const std::vector<SchemaNode>& list, unsigned types)
      : nodes_(nodes), list_(list), types_(types) {
    std::unordered_map<std::string, size_t> asked;  // how many ask for a property
    for (const SchemaNode& node : list) {
      nodes.AddTogether(node, together_.emplace_back());
      for (const std::string& name : Telling(together_.back())) {
        if (++asked[name] > most_) property_ = name;
        most_ = std::max(most_, asked[name]);
      }
    }
    for (size_t i = 0; i < list.size(); ++i) {
      marks_.push_back(MarksOf(together_[i]));
      if (!marks_[i]) unmarked_.push_back(i);
      for (const std::string& mark : marks_[i].value_or(std::vector<std::string>())) {
        marked_[mark].push_back(i);
      }
    }
  }

  // The numbers of the others, rising.
  std::vector<size_t> Of(size_t i) {
    std::vector<size_t> near = unmarked_;
    if (marks_[i]) {
      for (const std::string& mark : *marks_[i]) {
        near.insert(near.end(), marked_[mark].begin(), marked_[mark].end());
      }
    } else {
      near.clear();
      for (size_t j = 0; j < list_.size(); ++j) near.push_back(j);
    }
    std::ranges::sort(near);
    near.erase(std::unique(near.begin(), near.end()), near.end());
    nodes_.budget_.Spend(near.size());
    std::erase_if(near,
                  [&](size_t j) { return j == i || nodes_.Disjoint(list_[i], list_[j], types_); });
    return near;
  }

 private:
  // The values that schemas list for a property that they ask for.
  std::optional<std::vector<const Json*>> ValuesOf(const std::vector<SchemaNode>& together,
                                                   const std::string& name) {
    for (const SchemaNode& node : together) {
      const auto properties = node.json->find("properties");
      if (properties == node.json->end() || !properties->is_object()) continue;
      const Json* const member = nodes_.Member(*properties, name);
      if (member == nullptr) continue;
      std::vector<SchemaNode> of_member;
      nodes_.AddTogether(node.Part(*member, ""), of_member);
      if (auto values = ValuesListed(of_member)) return values;
    }
    return std::nullopt;
  }
  // The properties that these ask for with listed values, where they allow objects alone.
  std::vector<std::string> Telling(const std::vector<SchemaNode>& together) {
    unsigned types = types_;
    for (const SchemaNode& node : together) types &= PossibleTypes(node, nodes_.budget_);
    std::vector<std::string> names;
    if (types != kObjectType) return names;
    for (const SchemaNode& node : together) {
      const auto required = node.json->find("required");
      if (required == node.json->end() || !required->is_array()) continue;
      for (const Json& name : *required) {
        if (!name.is_string() || !nodes_.budget_.Spend(16)) continue;
        if (ValuesOf(together, name.get<std::string>())) names.push_back(name.get<std::string>());
      }
    }
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }

  std::string MarkOf(const Json& value) {
    const Json* const member =
        value.is_object() && most_ > 0 ? nodes_.Member(value, property_) : nullptr;
    nodes_.budget_.Spend(8);
    return member == nullptr ? absl::StrCat("v", Canonical(value))
                             : absl::StrCat("p", Canonical(*member));
  }
  std::optional<std::vector<std::string>> MarksOf(const std::vector<SchemaNode>& together) {
    std::vector<std::string> marks;
    if (const auto values = ValuesListed(together)) {
      for (const Json* value : *values) marks.push_back(MarkOf(*value));
      return marks;
    }
    const std::vector<std::string> names = Telling(together);
    if (!std::ranges::binary_search(names, property_)) return std::nullopt;
    for (const Json* value : ValuesOf(together, property_).value_or(std::vector<const Json*>())) {
      marks.push_back(absl::StrCat("p", Canonical(*value)));
    }
    return marks;
  }

  SchemaNodes& nodes_;
  const std::vector<SchemaNode>& list_;
  const unsigned types_;
  std::vector<std::vector<SchemaNode>> together_;               // [n_schemas]
  std::string property_;                                        // what most of them ask for
  size_t most_ = 0;                                             // how many do
  std::vector<std::optional<std::vector<std::string>>> marks_;  // [n_schemas]
  std::unordered_map<std::string, std::vector<size_t>> marked_;
  std::vector<size_t> unmarked_;
};

void SchemaNodes::AddTwoOf(const std::vector<SchemaNode>& nodes, Json& any) {
  Meetings meetings(*this, nodes, kAllTypes);
  for (size_t i = 0; i < nodes.size() && budget_.Spend(8); ++i) {
    for (const size_t j : meetings.Of(i)) {
      if (j > i || !budget_.Spend(128)) break;
      any.push_back(Json{{"allOf", Json::array({Handle(nodes[i]), Handle(nodes[j])})}});
    }
  }
}

absl::Status SchemaNodes::AddCombined(const SchemaNode& node, Path& path,
                                      std::vector<AllOf>& found) {
  const Json& json = *node.json;
  const auto add = [&](absl::StatusOr<std::vector<AllOf>> more) {
    if (!more.ok()) return more.status();
    return Multiply(*more, found, node.at);
  };
  for (const char* name : {"$ref", "$dynamicRef", "$recursiveRef", kIs}) {
    if (!json.contains(name)) continue;
    NG_ASSIGN_OR_RETURN(const SchemaNode target, Resolve(node, name));
    NG_RETURN_IF_ERROR(add(Expand(target, path)));
    if (draft_ == SchemaDraft::k7 && name != kIs) return absl::OkStatus();
  }
  if (json.contains("allOf")) {
    for (const SchemaNode& each : Elements(node, "allOf")) {
      NG_RETURN_IF_ERROR(add(Expand(each, path)));
    }
  }
  if (json.contains("anyOf")) NG_RETURN_IF_ERROR(add(AnyOf(Elements(node, "anyOf"), path)));
  if (json.contains("oneOf")) NG_RETURN_IF_ERROR(add(OneOf(Elements(node, "oneOf"), path)));
  if (json.contains("not")) {
    NG_ASSIGN_OR_RETURN(const SchemaNode negated, Negated(node.Beside(json["not"], "not")));
    NG_RETURN_IF_ERROR(add(Expand(negated, path)));
  }
  if (json.contains("if")) NG_RETURN_IF_ERROR(add(IfThenElse(node, path)));
  return AddDependent(node, path, found);
}

absl::StatusOr<std::vector<AllOf>> SchemaNodes::IfThenElse(const SchemaNode& node, Path& path) {
  const Json& json = *node.json;
  // By itself it matters for what it evaluates only.
  const bool evaluates = node.evaluates && InUnevaluated(path);
  if (!json.contains("then") && !json.contains("else") && !evaluates) {
    return std::vector<AllOf>{{}};
  }
  const SchemaNode condition = node.Beside(json["if"], "if");
  NG_ASSIGN_OR_RETURN(const SchemaNode opposite, Negated(condition));
  std::vector<AllOf> found;
  for (const auto& [begin, name] : {std::pair(condition, "then"), std::pair(opposite, "else")}) {
    NG_ASSIGN_OR_RETURN(std::vector<AllOf> branch, Expand(begin, path));
    if (json.contains(name)) {
      NG_ASSIGN_OR_RETURN(const std::vector<AllOf> more,
                          Expand(node.Beside(json[name], name), path));
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
    const SchemaNode dependent = node.Beside((*node.json)[name], name);
    for (const auto& [key, schema] : dependent.json->items()) {
      if (schema.is_array()) continue;
      const SchemaNode asked = dependent.Beside(schema, key);
      const std::string& at = asked.at;
      SchemaNode absent = Made(Json{{"properties", {{key, false}}}}, node.at);
      SchemaNode present = Made(Json{{"type", "object"}, {"required", {key}}}, at);
      absent.evaluates = present.evaluates = false;
      std::vector<AllOf> either = {{present}};
      NG_ASSIGN_OR_RETURN(const std::vector<AllOf> more, Expand(asked, path));
      NG_RETURN_IF_ERROR(Multiply(more, either, at));
      either.push_back({absent});
      NG_RETURN_IF_ERROR(Multiply(either, found, node.at));
    }
  }
  return absl::OkStatus();
}

bool SchemaNodes::InUnevaluated(const Path& path) {
  return std::ranges::any_of(path.keys, [](const Key& key) { return SaysUnevaluated(*key.first); });
}

absl::StatusOr<std::vector<AllOf>> SchemaNodes::AnyOf(const std::vector<SchemaNode>& nodes,
                                                      Path& path) {
  const bool exact = !nodes.empty() && nodes.front().evaluates && InUnevaluated(path);
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
  Meetings meetings(*this, nodes, path.types);
  for (size_t i = 0; i < nodes.size(); ++i) {
    NG_ASSIGN_OR_RETURN(std::vector<AllOf> one, Expand(nodes[i], path));
    for (const size_t j : one.empty() ? std::vector<size_t>() : meetings.Of(i)) {
      if (one.empty()) break;
      NG_ASSIGN_OR_RETURN(const SchemaNode other, Negated(nodes[j]));
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
    made["additionalProperties"] = Handle(node.Part(*properties, "unevaluatedProperties"));
    for (const SchemaNode& other : all) {
      for (const char* keyword : {"properties", "patternProperties"}) {
        if (!other.evaluates || !other.json->contains(keyword)) continue;
        const Json& named = (*other.json)[keyword];
        budget_.Spend(named.size() * named.size() / 16);
        for (const auto& [key, schema] : named.items()) made[keyword][key] = true;
      }
    }
  }
  if (node.json->contains("unevaluatedItems")) {
    NG_ASSIGN_OR_RETURN(const Json items, UnevaluatedItems(node, all));
    made.update(items);
  }
  // The same again for the same, so that a schema that refers to itself comes to an end.
  const Key key(node.json, node.scope);
  const auto [place, is_new] = unevaluated_.try_emplace({key, made.dump()});
  if (is_new) place->second = Made(std::move(made), node.at);
  all.push_back(place->second);
  all.back().evaluates = node.evaluates;
  return absl::OkStatus();
}

// An element that `contains` allows is evaluated by it, though not in draft 2019-09.
absl::StatusOr<Json> SchemaNodes::UnevaluatedItems(const SchemaNode& node, const AllOf& all) {
  Json prefix = Json::array();
  Json others = Json::array();
  bool every = false;
  for (const SchemaNode& other : all) {
    if (!other.evaluates) continue;
    const Json& json = *other.json;
    const auto items = json.find("items");
    const bool old_list = items != json.end() && items->is_array();
    if (draft_ == SchemaDraft::k2020 && json.contains("contains")) {
      others.push_back(Handle(other.Part(json["contains"], "contains")));
    }
    every |= old_list ? json.contains("additionalItems") : items != json.end();
    const auto list = old_list ? items : json.find("prefixItems");
    if (list == json.end() || !list->is_array()) continue;
    while (prefix.size() < list->size()) prefix.push_back(true);
  }
  if (every) return Json::object();
  Json rest = Handle(node.Part(node.json->at("unevaluatedItems"), "unevaluatedItems"));
  if (!others.empty()) {
    others.push_back(std::move(rest));
    rest = Json{{"anyOf", std::move(others)}};
  }
  Json made = {{"items", std::move(rest)}};
  if (!prefix.empty()) made["prefixItems"] = std::move(prefix);
  return made;
}

}  // namespace ng::grammar
