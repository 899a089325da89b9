// A JSON schema taken apart: references followed, and what is said by allOf, anyOf, oneOf, not, if
// and dependent... turned into a list of alternatives, each of which is a list of schemas without
// those keywords that hold at once.
//
// Every keyword is either read, known to say nothing about which values are valid, or refused by
// name.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_NODES_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_NODES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ng/status.h"
#include "nlohmann/json.hpp"
#include "plugins/sampler/grammar/automata/budget.h"
#include "plugins/sampler/grammar/schema/member_index.h"
#include "plugins/sampler/grammar/schema/numbers.h"
#include "plugins/sampler/grammar/schema/references.h"
#include "plugins/sampler/grammar/schema/spelling.h"

namespace ng::grammar {

// Keywords of schemas that are made here. Parse refuses names of a user that begin so.
inline constexpr char kIs[] = "\001is";            // the schema of this number, see Handle
inline constexpr char kDiffers[] = "\001differs";  // none of these values, which are no lists
inline constexpr char kLacks[] = "\001lacks";      // none of these patterns is found
inline constexpr char kNoMultiple[] = "\001noMultiple";
inline constexpr char kFrom[] = "\001from";        // contains is about elements from this one on
inline constexpr char kHasName[] = "\001hasName";  // a property has a name that this schema allows

struct SchemaNode {
  const Json* json = nullptr;
  std::string at;  // the JSON pointer to it, for messages
  // Whether what it names counts as evaluated, for unevaluatedProperties and unevaluatedItems
  // around it. What an opposite names does not.
  bool evaluates = true;
  int32_t scope = 0;  // of the way that led to it, see SchemaReferences

  // What stands in it under a name: about the same value, or about a part of it.
  SchemaNode Beside(const Json& below, std::string_view name) const;
  SchemaNode Part(const Json& below, std::string_view name) const;
};
// Schemas that hold at once.
using AllOf = std::vector<SchemaNode>;

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
// The types of a schema's values, as far as it names or lists them.
unsigned PossibleTypes(const SchemaNode& node, Budget& budget);

class SchemaNodes {
 public:
  // Borrows the budget. Errors: UsageError when the text is no JSON, or no schema.
  static absl::StatusOr<std::unique_ptr<SchemaNodes>> Parse(std::string_view text,
                                                            const SchemaSpelling& spelling,
                                                            Budget& budget);
  SchemaNodes(const SchemaSpelling& spelling, Budget& budget)
      : assert_formats_(spelling.assert_formats),
        unknown_keywords_(spelling.unknown_keywords),
        budget_(budget) {}

  SchemaNode root() const { return {&root_, "#"}; }

  // The alternatives of schemas that hold at once. In what they list, only keywords about types,
  // values, strings, numbers, arrays and objects are left to read.
  absl::StatusOr<std::vector<AllOf>> Alternatives(const AllOf& all);
  // A schema of the values that a schema does not allow. Errors: where that cannot be said.
  absl::StatusOr<SchemaNode> Negated(const SchemaNode& node);
  // Whether it is certain that no value of these types is allowed by both.
  bool Disjoint(const SchemaNode& a, const SchemaNode& b, unsigned types, int depth = 0);
  // The schema that a keyword of a node names: $ref, $dynamicRef, $recursiveRef, kIs. Errors: where
  // it names none.
  absl::StatusOr<SchemaNode> Resolve(const SchemaNode& node, const std::string& keyword);
  // Whether a list holds a value. The list must stay where it is.
  bool Holds(const Json& list, const Json& value);
  // The value of a name in an object, which must stay where it is; null where there is none.
  const Json* Member(const Json& object, const std::string& name) {
    return members_.Find(object, name);
  }
  // A schema made here; it lives as long as this. It holds others by their handles.
  SchemaNode Made(Json json, const std::string& at);
  // A schema that says the same as a node, and one that says the opposite.
  Json Handle(const SchemaNode& node);
  Json Opposite(const SchemaNode& node);
  // A schema that this value alone keeps.
  SchemaNode Only(const Json& value);

 private:
  using Key = std::pair<const Json*, int32_t>;  // a node: its schema and its scope
  // The nodes around one that are about the same value, and the types that all of them allow.
  struct Path {
    std::vector<Key> keys;
    unsigned types;
  };
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
  absl::StatusOr<Json> UnevaluatedItems(const SchemaNode& node, const AllOf& all);
  absl::StatusOr<std::vector<AllOf>> AnyOf(const std::vector<SchemaNode>& nodes, Path& path);
  absl::StatusOr<std::vector<AllOf>> OneOf(const std::vector<SchemaNode>& nodes, Path& path);
  absl::Status Multiply(const std::vector<AllOf>& by, std::vector<AllOf>& found,
                        const std::string& at);
  void DropRepeated(std::vector<AllOf>& alternatives);
  struct Keyword;
  absl::Status NegateKeyword(const Keyword& keyword, Json& any);
  bool NegateValues(const Keyword& keyword, Json& any);
  static absl::StatusOr<bool> NegateLimit(const Keyword& keyword, Json& any);
  absl::StatusOr<bool> NegateElements(const Keyword& keyword, Json& any);
  absl::StatusOr<bool> NegateProperties(const Keyword& keyword, Json& any);
  absl::StatusOr<bool> NegateCombined(const Keyword& keyword, Json& any);
  // Adds to `any` that a value is allowed by two of these.
  void AddTwoOf(const std::vector<SchemaNode>& nodes, Json& any);
  // Finds those of a list that have a value in common with one of them.
  class Meetings;
  // Adds schemas that hold wherever this one does, itself among them: some, not all.
  void AddTogether(const SchemaNode& node, std::vector<SchemaNode>& found, int depth = 0);
  // Whether one of these keywords of the first node says so.
  bool DisjointProperties(const SchemaNode& a, const SchemaNode& b, int depth);
  bool DisjointCombined(const SchemaNode& a, const SchemaNode& b, unsigned types, int depth);
  // Of a node, as far as a reference beside it leaves them.
  absl::StatusOr<unsigned> TypesHere(const SchemaNode& node) const;

  const bool assert_formats_;
  const bool unknown_keywords_;
  Budget& budget_;
  Json root_;
  SchemaDraft draft_ = SchemaDraft::k2020;
  SchemaReferences references_;
  std::deque<Json> made_;
  std::vector<SchemaNode> handles_;
  std::map<Key, size_t> handle_of_;
  std::map<Key, SchemaNode> negated_;
  // By node, whether what it names counts as evaluated and that matters around it, and the types.
  std::map<std::tuple<Key, bool, bool, unsigned>, std::vector<AllOf>> expanded_;
  std::map<const Json*, std::unordered_set<std::string>> values_;  // of lists
  MemberIndex members_;
  std::map<std::pair<Key, std::string>, SchemaNode> unevaluated_;  // by node and text
};

// In time that grows as the text does; nothing where it is no JSON.
std::optional<Json> ReadJson(std::string_view text);
// "#/a/b" of "#/a" and "b".
std::string PointerTo(const std::string& at, std::string_view name);
bool SaysUnevaluated(const Json& json);
// Whether a keyword never says anything about which values are valid.
bool SaysNothing(std::string_view keyword);
absl::Status SchemaError(const std::string& at, const std::string& what);

// Whether two values are equal as a schema sees them: 1 and 1.0 are, the order of properties does
// not count.
bool Same(const Json& a, const Json& b);
// A text that is the same for values that are the same.
std::string Canonical(const Json& value);
// Whether the value is of the type; integer is a type of its own and a number.
bool IsOfType(const Json& value, std::string_view type);
}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_NODES_H_
