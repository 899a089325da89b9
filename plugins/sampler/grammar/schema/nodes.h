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
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ng/status.h"
#include "nlohmann/json.hpp"
#include "plugins/sampler/grammar/automata/budget.h"
#include "plugins/sampler/grammar/schema/numbers.h"
#include "plugins/sampler/grammar/schema/references.h"

namespace ng::grammar {

struct SchemaNode {
  const Json* json = nullptr;
  std::string at;  // the JSON pointer to it, for messages
  // Whether what it names counts as evaluated, for unevaluatedProperties and unevaluatedItems
  // around it. What an opposite names does not.
  bool evaluates = true;
};
// Schemas that hold at once.
using AllOf = std::vector<SchemaNode>;

class SchemaNodes {
 public:
  // Borrows the budget. Errors: UsageError when the text is no JSON, or no schema.
  static absl::StatusOr<std::unique_ptr<SchemaNodes>> Parse(std::string_view text, Budget& budget);
  explicit SchemaNodes(Budget& budget) : budget_(budget) {}

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
  // The schema that the $ref of a node names. Errors: where it names none.
  absl::StatusOr<SchemaNode> Resolve(const SchemaNode& node) const;
  // Whether a list holds a value. The list must stay where it is.
  bool Holds(const Json& list, const Json& value);
  // The value of a name in an object, which must stay where it is; null where there is none.
  const Json* Member(const Json& object, const std::string& name);
  // A schema made here; it lives as long as this.
  SchemaNode Made(Json json, const std::string& at);

 private:
  using Path = std::vector<const Json*>;
  static constexpr size_t kMaxAlternatives = 1000;

  // Worked out once for a node, except where it matters what lies around it.
  absl::StatusOr<std::vector<AllOf>> Expand(const SchemaNode& node, Path& path);
  absl::StatusOr<std::vector<AllOf>> ExpandNew(const SchemaNode& node, Path& path);
  absl::Status CheckKeywords(const SchemaNode& node) const;
  absl::Status AddCombined(const SchemaNode& node, Path& path, std::vector<AllOf>& found);
  absl::Status AddDependent(const SchemaNode& node, Path& path, std::vector<AllOf>& found);
  absl::StatusOr<std::vector<AllOf>> IfThenElse(const SchemaNode& node, Path& path);
  // Whether it matters there what is evaluated.
  static bool InUnevaluated(const Path& path);
  // What a node says of properties and items that none of these evaluates, as a node without that.
  absl::Status AddUnevaluated(const SchemaNode& node, AllOf& all);
  absl::StatusOr<Json> UnevaluatedItems(const SchemaNode& node, const AllOf& all) const;
  absl::StatusOr<std::vector<AllOf>> AnyOf(const std::vector<SchemaNode>& nodes, Path& path);
  absl::StatusOr<std::vector<AllOf>> OneOf(const std::vector<SchemaNode>& nodes, Path& path);
  absl::Status Multiply(const std::vector<AllOf>& by, std::vector<AllOf>& found,
                        const std::string& at);
  void DropRepeated(std::vector<AllOf>& alternatives);
  struct Keyword;
  absl::Status NegateKeyword(const Keyword& keyword, Json& any);
  absl::StatusOr<bool> NegateLimit(const Keyword& keyword, Json& any) const;
  absl::StatusOr<bool> NegateCombined(const Keyword& keyword, Json& any);

  Budget& budget_;
  Json root_;
  bool old_ = false;
  SchemaReferences references_;
  std::deque<Json> made_;
  std::map<const Json*, SchemaNode> negated_;
  // By node, whether what it names counts as evaluated, and whether that matters around it.
  std::map<std::tuple<const Json*, bool, bool>, std::vector<AllOf>> expanded_;
  std::map<const Json*, std::unordered_set<std::string>> values_;                // of lists
  std::map<const Json*, std::unordered_map<std::string, const Json*>> members_;  // of large objects
  std::map<std::pair<const Json*, std::string>, SchemaNode> unevaluated_;        // by node and text
};

// "#/a/b" of "#/a" and "b".
std::string PointerTo(const std::string& at, std::string_view name);
bool SaysUnevaluated(const Json& json);
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
