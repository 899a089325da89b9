// Whether a schema allows a value that is known: one of const or enum.
#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/schema/compiler.h"

namespace ng::grammar {
namespace {

// The value's size where the keyword is about it: characters, elements, properties.
int64_t SizeFor(const std::string& keyword, const Json& value) {
  if (keyword.ends_with("Length"))
    return value.is_string() ? CodePoints(value.get<std::string>()) : -1;
  if (keyword.ends_with("Items")) return value.is_array() ? std::ssize(value) : -1;
  return value.is_object() ? std::ssize(value) : -1;
}

}  // namespace

int64_t CodePoints(const std::string& text) {
  return std::ranges::count_if(text,
                               [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

absl::StatusOr<bool> SchemaCompiler::Allows(const SchemaNode& node, const Json& value, int depth) {
  constexpr int kMaxDepth = 300;
  if (depth > kMaxDepth) return SchemaError(node.at, "goes too deep");
  if (node.json->is_boolean()) return node.json->get<bool>();
  NG_ASSIGN_OR_RETURN(const std::vector<AllOf> found, nodes_.Alternatives({node}));
  for (const AllOf& all : found) {
    bool allowed = true;
    for (const SchemaNode& each : all) {
      NG_ASSIGN_OR_RETURN(const bool keeps, Keeps(each, value, depth + 1));
      allowed &= keeps;
      if (!allowed) break;
    }
    if (allowed) return true;
  }
  return false;
}

// The keywords that Alternatives leaves.
absl::StatusOr<bool> SchemaCompiler::Keeps(const SchemaNode& node, const Json& value, int depth) {
  constexpr size_t kLook = 24;  // what a schema and a value take at least
  if (!budget_.Spend(kLook + node.json->size())) {
    return SchemaError(node.at, std::string(budget_.status().message()));
  }
  NG_ASSIGN_OR_RETURN(const unsigned types, TypesOf(node));
  bool typed = false;
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    typed |= (types & (1U << i)) != 0 && IsOfType(value, kTypes[i]);
  }
  if (!typed) return false;
  for (const auto& [name, operand] : node.json->items()) {
    if (name == "const" && !Same(operand, value)) return false;
    if (name == "enum" && !nodes_.Holds(operand, value)) return false;
    if (name == kDiffers && nodes_.Holds(operand, value)) return false;
    const bool sized = name.starts_with("minLen") || name.starts_with("maxLen") ||
                       name.starts_with("minIt") || name.starts_with("maxIt") ||
                       name.starts_with("minProp") || name.starts_with("maxProp");
    if (sized && operand.is_number()) {
      const int64_t size = SizeFor(name, value);
      const auto bound = operand.get<double>();
      if (size >= 0 && (name.starts_with("min") ? static_cast<double>(size) < bound
                                                : static_cast<double>(size) > bound)) {
        return false;
      }
    }
  }
  if (value.is_number()) return KeepsNumber(node, value);
  if (value.is_string()) return KeepsText(node, value.get<std::string>());
  if (value.is_array()) return KeepsElements(node, value, depth);
  if (value.is_object()) return KeepsProperties(node, value, depth);
  return true;
}

absl::StatusOr<bool> SchemaCompiler::KeepsNumber(const SchemaNode& node, const Json& value) {
  const auto number = value.get<double>();
  for (const auto& [name, operand] : node.json->items()) {
    if (!operand.is_number()) continue;
    const auto bound = operand.get<double>();
    if (name == "minimum" && !(number >= bound)) return false;
    if (name == "maximum" && !(number <= bound)) return false;
    if (name == "exclusiveMinimum" && !(number > bound)) return false;
    if (name == "exclusiveMaximum" && !(number < bound)) return false;
    if (name != "multipleOf" && name != kNoMultiple) continue;
    const absl::StatusOr<bool> multiple = IsMultiple(value, operand);
    if (!multiple.ok()) {
      return SchemaError(PointerTo(node.at, name), std::string(multiple.status().message()));
    }
    if (*multiple != (name == "multipleOf")) return false;
  }
  return true;
}

absl::StatusOr<bool> SchemaCompiler::KeepsText(const SchemaNode& node, const std::string& text) {
  NG_ASSIGN_OR_RETURN(const std::vector<const Dfa*> limits, PatternsOf(node));
  NG_ASSIGN_OR_RETURN(const std::vector<const Dfa*> lacks, LackedBy(node));
  budget_.Spend(text.size() * (1 + limits.size() + lacks.size()) / 4);
  const auto matches = [&](const Dfa* dfa) { return dfa->Matches(text); };
  return std::ranges::all_of(limits, matches) && std::ranges::none_of(lacks, matches);
}

absl::StatusOr<bool> SchemaCompiler::KeepsElements(const SchemaNode& node, const Json& value,
                                                   int depth) {
  for (size_t i = 0; i < value.size(); ++i) {
    for (const SchemaNode& element : ElementSchemas({node}, static_cast<int64_t>(i))) {
      NG_ASSIGN_OR_RETURN(const bool allowed, Allows(element, value[i], depth + 1));
      if (!allowed) return false;
    }
  }
  const auto unique = node.json->find("uniqueItems");
  if (unique != node.json->end() && *unique == true) {
    std::set<std::string> known;
    for (const Json& each : value) {
      if (!known.insert(Canonical(each)).second) return false;
    }
  }
  const auto contains = node.json->find("contains");
  if (contains == node.json->end()) return true;
  NG_ASSIGN_OR_RETURN(Count times, Counts({node}, "minContains", "maxContains"));
  if (!node.json->contains("minContains")) times.least = 1;
  int64_t n = 0;
  for (size_t i = node.json->value(kFrom, size_t{0}); i < value.size(); ++i) {
    NG_ASSIGN_OR_RETURN(const bool allowed,
                        Allows(node.Part(*contains, "contains"), value[i], depth + 1));
    if (allowed) ++n;
  }
  return n >= times.least && (times.most < 0 || n <= times.most);
}

absl::StatusOr<bool> SchemaCompiler::KeepsProperties(const SchemaNode& node, const Json& value,
                                                     int depth) {
  const auto required = node.json->find("required");
  if (required != node.json->end()) {
    for (const Json& key : *required) {
      if (key.is_string() && !value.contains(key.get<std::string>())) return false;
    }
  }
  NG_ASSIGN_OR_RETURN(const std::vector<Dependency> dependencies, Dependencies({node}));
  for (const Dependency& dependency : dependencies) {
    if (value.contains(dependency.key) && !value.contains(dependency.needs)) return false;
  }
  for (const auto& [key, property] : value.items()) {
    NG_ASSIGN_OR_RETURN(const AllOf schemas, PropertySchemas({node}, key));
    for (const SchemaNode& schema : schemas) {
      NG_ASSIGN_OR_RETURN(const bool allowed, Allows(schema, property, depth + 1));
      if (!allowed) return false;
    }
    const auto names = node.json->find("propertyNames");
    if (names == node.json->end()) continue;
    NG_ASSIGN_OR_RETURN(const bool allowed,
                        Allows(node.Part(*names, "propertyNames"), key, depth + 1));
    if (!allowed) return false;
  }
  const auto asked = node.json->find(kHasName);
  if (asked == node.json->end()) return true;
  for (const auto& [key, property] : value.items()) {
    NG_ASSIGN_OR_RETURN(const bool allowed, Allows(node.Part(*asked, kHasName), key, depth + 1));
    if (allowed) return true;
  }
  return false;
}

}  // namespace ng::grammar
