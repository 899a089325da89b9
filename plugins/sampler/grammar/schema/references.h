// Where the references of a schema lead: to its resources (the root and each part with an $id),
// their anchors and JSON pointers. Nothing outside of the one document is read.
//
// Made once; afterwards only read.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_REFERENCES_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_REFERENCES_H_

#include <map>
#include <string>

#include "ng/status.h"
#include "plugins/sampler/grammar/schema/numbers.h"

namespace ng::grammar {

class SchemaReferences {
 public:
  // `old`: a draft before 2019-09. Borrows the root. Errors: UsageError where two parts have one
  // name, or a part is of another draft.
  absl::Status Read(const Json& root, bool old);

  // The schema that a reference in `from` names. Errors: UsageError that says why there is none,
  // without the place.
  absl::StatusOr<const Json*> Find(const Json& from, const std::string& reference) const;

 private:
  absl::Status Walk(const Json& schema, std::string base, const std::string& at);
  absl::Status WalkBelow(const Json& schema, const std::string& base, const std::string& at);
  absl::Status Name(const std::string& name, const Json& schema, const std::string& at);
  absl::StatusOr<const Json*> Follow(const Json& resource, const std::string& pointer) const;

  const Json* root_ = nullptr;
  bool old_ = false;
  std::map<std::string, const Json*> names_;  // "<$id>", "<$id>#<anchor>"
  std::map<const Json*, std::string> bases_;  // what references in a schema are relative to
  size_t n_resources_ = 0;
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_REFERENCES_H_
