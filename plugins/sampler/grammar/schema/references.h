// Where the references of a schema lead: to its resources (the root and each part with an $id),
// their anchors and JSON pointers. Nothing outside of the one document is read.
//
// What $dynamicRef means depends on the way that led to it: the outermost resource on that way that
// has the $dynamicAnchor counts. So a way has a scope: which schema each such name means on it.
// Equal scopes have one number; 0 is that of a way that has not begun.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_REFERENCES_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_REFERENCES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ng/status.h"
#include "plugins/sampler/grammar/schema/member_index.h"
#include "plugins/sampler/grammar/schema/numbers.h"

namespace ng::grammar {

enum class SchemaDraft : uint8_t { k7, k2019, k2020 };  // k7 and before

class SchemaReferences {
 public:
  // Borrows the root. Errors: UsageError where two parts have one name, or a part is of another
  // draft.
  absl::Status Read(const Json& root, SchemaDraft draft);

  // The schema that a reference in `from` names; `dynamic`, in a scope. Errors: UsageError that
  // says why there is none, without the place.
  absl::StatusOr<const Json*> Find(const Json& from, const std::string& reference);
  absl::StatusOr<const Json*> FindDynamic(const Json& from, const std::string& reference,
                                          int32_t scope);
  // The scope of a way that goes on into this schema.
  int32_t Within(const Json& schema, int32_t scope);

 private:
  using Names = std::map<std::string, const Json*>;
  struct Resource {
    std::string base;  // what references in it are relative to
    Names dynamic;     // its $dynamicAnchor; a $recursiveAnchor has no name
  };

  absl::Status Walk(const Json& schema, Resource& around, const std::string& at);
  absl::Status WalkBelow(const Json& schema, Resource& resource, const std::string& at);
  absl::Status Name(const std::string& name, const Json& schema, const std::string& at);
  absl::StatusOr<const Json*> Follow(const Json& resource, const std::string& pointer);
  void DropUnambiguous();

  const Json* root_ = nullptr;
  SchemaDraft draft_ = SchemaDraft::k2020;
  MemberIndex members_;
  Names names_;  // "<$id>", "<$id>#<anchor>"
  std::deque<Resource> resources_;
  std::map<const Json*, const Resource*> resource_of_;
  bool dynamic_ = false;      // whether a reference is
  std::deque<Names> scopes_;  // by their numbers
  std::map<Names, int32_t> numbers_;
  std::map<std::pair<int32_t, const Resource*>, int32_t> within_;
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_REFERENCES_H_
