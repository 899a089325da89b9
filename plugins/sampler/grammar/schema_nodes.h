// A JSON schema taken apart: references followed, and what is said by allOf, anyOf, oneOf, not, if
// and dependent... turned into a list of alternatives, each of which is a list of schemas without
// those keywords that hold at once.
//
// Every keyword is either read, known to say nothing about which values are valid, or refused by
// name.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_NODES_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_NODES_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ng/status.h"
#include "nlohmann/json.hpp"
#include "plugins/sampler/grammar/json_numbers.h"

namespace ng::grammar {

struct SchemaNode {
  const Json* json = nullptr;
  std::string at;  // the JSON pointer to it, for messages
};
// Schemas that hold at once.
using AllOf = std::vector<SchemaNode>;

class SchemaNodes {
 public:
  // Errors: UsageError when the text is no JSON, or no schema.
  static absl::StatusOr<std::unique_ptr<SchemaNodes>> Parse(std::string_view text);

  SchemaNode root() const { return {&root_, "#"}; }
  // Whether this is a schema of a draft before 2019-09.
  bool is_old() const { return old_; }

  // The alternatives of schemas that hold at once. In what they list, only keywords about types,
  // values, strings, numbers, arrays and objects are left to read.
  absl::StatusOr<std::vector<AllOf>> Alternatives(const AllOf& all);
  // A schema of the values that a schema does not allow. Errors: where that cannot be said.
  absl::StatusOr<SchemaNode> Negated(const SchemaNode& node);
  // Whether it is certain that no value is allowed by both.
  bool Disjoint(const SchemaNode& a, const SchemaNode& b, int depth = 0);
  absl::StatusOr<SchemaNode> Resolve(const std::string& reference, const std::string& at);
  // A schema made here; it lives as long as this.
  SchemaNode Made(Json json, const std::string& at);

 private:
  using Path = std::vector<const Json*>;
  absl::StatusOr<std::vector<AllOf>> Expand(const SchemaNode& node, Path& path);
  absl::Status CheckKeywords(const SchemaNode& node) const;
  absl::Status AddCombined(const SchemaNode& node, Path& path, std::vector<AllOf>& found);
  absl::StatusOr<std::vector<AllOf>> AnyOf(const std::vector<SchemaNode>& nodes, Path& path);
  absl::StatusOr<std::vector<AllOf>> OneOf(const std::vector<SchemaNode>& nodes, Path& path);
  absl::Status Multiply(const std::vector<AllOf>& by, std::vector<AllOf>& found,
                        const std::string& at) const;
  absl::Status NegateKeyword(const SchemaNode& node, const std::string& name, const Json& value,
                             Json& any);

  Json root_;
  bool old_ = false;
  std::deque<Json> made_;
  std::map<const Json*, SchemaNode> negated_;
};

// "#/a/b" of "#/a" and "b".
std::string PointerTo(const std::string& at, std::string_view name);
absl::Status SchemaError(const std::string& at, const std::string& what);

// Whether two values are equal as a schema sees them: 1 and 1.0 are, the order of properties does
// not count.
bool Same(const Json& a, const Json& b);
// Whether the value is of the type; integer is a type of its own and a number.
bool IsOfType(const Json& value, std::string_view type);
// The types that a schema names, as bits of kTypes; all where it names none. Errors: an unknown
// one.
inline constexpr std::string_view kTypes[] = {"null",   "boolean", "string",  "array",
                                              "object", "integer", "fraction"};
enum TypeBit : unsigned {
  kNullType = 1,
  kBooleanType = 2,
  kStringType = 4,
  kArrayType = 8,
  kObjectType = 16,
  kIntegerType = 32,
  kFractionType = 64,
  kAllTypes = 127,
};
absl::StatusOr<unsigned> TypesOf(const SchemaNode& node);

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_NODES_H_
