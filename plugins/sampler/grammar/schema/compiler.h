// From a JSON schema to rules of a net: a rule for each list of schemas that must hold at once.
//
// How the answer is spelled, unless the spelling says otherwise: blanks may stand between the
// parts, as in text on one line or indented; a string that the schema limits, and a property's
// name, has the shortest spelling; a number that the schema limits has no exponent. So not every
// spelling of every valid value can be written, but whatever is written is valid.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_COMPILER_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_COMPILER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "plugins/sampler/grammar/automata/dfa.h"
#include "plugins/sampler/grammar/automata/net.h"
#include "plugins/sampler/grammar/schema/nodes.h"
#include "plugins/sampler/grammar/schema/numbers.h"
#include "plugins/sampler/grammar/schema/spelling.h"

namespace ng::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(SchemaNodes& nodes, const SchemaSpelling& spelling, Net& net);

  // The rule of the whole schema. Errors: UsageError with a JSON pointer.
  absl::StatusOr<int32_t> Compile();
  // The same of its objects alone, written as the arguments of a call.
  absl::StatusOr<int32_t> CompileArguments();

 private:
  // What an object is written as.
  enum class Place { kWithin, kArguments };
  absl::Status CompileRest();

  // With `key` there must be `needs`.
  struct Dependency {
    std::string key;
    std::string needs;
  };
  struct Properties;
  // One of patternProperties.
  struct NamePattern {
    std::string text;
    std::string at;
    const Dfa* dfa = nullptr;
  };

  // The rule of schemas that hold at once; it is filled in later.
  int32_t RuleOf(const AllOf& all);
  absl::StatusOr<Part> Value(const AllOf& all);
  absl::StatusOr<Part> OneAlternative(const AllOf& all, unsigned types = kAllTypes);
  absl::StatusOr<Part> ListedValues(const AllOf& all, const Json& values);
  // Those of a list, or of const, that all of the schemas allow; nothing where none of them has
  // one.
  absl::StatusOr<std::optional<Json>> Listed(const AllOf& all);
  absl::StatusOr<Json> Allowed(const AllOf& all, const Json& values);
  Part Literal(const Json& value);
  // Arguments as an object.
  absl::StatusOr<Part> Arguments(const AllOf& all);

  absl::StatusOr<Part> Text(const AllOf& all);
  // The same without what is around a text and within it: texts of this set.
  absl::StatusOr<Part> Texts(const AllOf& all, const Dfa& within, Net& texts);
  // The texts in which the one pattern is found, where nothing else is said and the pattern counts.
  absl::StatusOr<std::optional<Part>> CountingPattern(const AllOf& all);
  absl::StatusOr<std::vector<const Dfa*>> PatternsOf(const SchemaNode& node);
  // What must not be found in it.
  absl::StatusOr<std::vector<const Dfa*>> LackedBy(const SchemaNode& node);
  // What the text must match besides having so many characters.
  absl::StatusOr<std::vector<const Dfa*>> TextLimits(const AllOf& all);
  absl::StatusOr<const Dfa*> FormatDfa(const std::string& name, const std::string& at);
  absl::StatusOr<const Dfa*> PatternDfa(const std::string& pattern, const std::string& at);
  absl::StatusOr<Part> Number(const AllOf& all, unsigned types);
  struct Contained;
  struct Elements;
  class Reading;
  absl::StatusOr<Part> Array(const AllOf& all);
  absl::Status CollectElements(const SchemaNode& node, Elements& elements);
  absl::StatusOr<Part> ArrayOf(const AllOf& all, const Elements& elements);
  // Whether no two elements can be equal, whatever they are.
  bool AlwaysDiffer(const AllOf& all, const Elements& elements);
  // The values that these allow, where they are few; else nothing.
  absl::StatusOr<std::optional<std::vector<Json>>> FewValues(const AllOf& all);
  absl::StatusOr<Part> SetOf(const AllOf& all, const Elements& elements, const std::string& at);
  // The schemas of an element, or of all from the longest prefix on.
  AllOf ElementSchemas(const AllOf& all, int64_t index) const;

  absl::StatusOr<Part> Object(const AllOf& all, Place place);
  absl::StatusOr<AllOf> PropertySchemas(const AllOf& all, const std::string& key);
  absl::StatusOr<std::vector<Dependency>> Dependencies(const AllOf& all) const;
  absl::Status CollectNames(const AllOf& all, Properties& found);
  absl::Status CollectOthers(const AllOf& all, Properties& found);
  absl::StatusOr<const Dfa*> NameLimit(const AllOf& all, Count* length);
  absl::StatusOr<Dfa> NamesOf(const SchemaNode& names, Count* length);
  absl::StatusOr<Dfa> NamesOfOne(const AllOf& all, Count* length);
  absl::StatusOr<std::vector<NamePattern>> PatternsOfNames(const AllOf& all);
  absl::StatusOr<Part> NameIn(const Dfa* set, Count length);
  // A property: its name, what comes between, and its value.
  absl::StatusOr<Part> Property(Part name, unsigned read_as, const AllOf& schemas, Place place);
  absl::StatusOr<Part> ObjectOf(const Properties& properties, const std::string& at, Place place);

  // spelled.cc
  absl::Status PrepareSpelling();
  // A set that other schemas of the grammar may have made already. `what` tells it from all others.
  absl::StatusOr<const Dfa*> SharedSet(const std::string& what,
                                       absl::FunctionRef<absl::StatusOr<Dfa>()> make);
  Part MarkPart(const Mark& mark);
  // Texts as a value.
  Part Spelled(const Net& texts, Part part);
  Part SpelledText(const std::string& text);
  bool NamesAreBare(Place place) const;
  absl::StatusOr<const Dfa*> BareNames();
  absl::StatusOr<Part> NamePart(const std::string& name, Place place);
  // A value that is written as plain text, and is read as one of these; with what is around it.
  absl::StatusOr<Part> Member(Part name, unsigned read_as, const AllOf& schemas);
  absl::StatusOr<const Dfa*> PlainTexts(unsigned read_as);
  // The rule of all of these with what stands behind a value.
  int32_t AnyPlainText(unsigned read_as, const Dfa& plain);
  // Whether the schemas allow every text.
  absl::StatusOr<bool> AllowsAnyText(const AllOf& all);
  class Writing;

  absl::StatusOr<Count> Counts(const AllOf& all, const char* least, const char* most) const;

  absl::StatusOr<bool> Allows(const SchemaNode& node, const Json& value, int depth);
  absl::StatusOr<bool> Keeps(const SchemaNode& node, const Json& value, int depth);
  absl::StatusOr<bool> KeepsText(const SchemaNode& node, const std::string& text);
  absl::StatusOr<bool> KeepsNumber(const SchemaNode& node, const Json& value);
  absl::StatusOr<bool> KeepsElements(const SchemaNode& node, const Json& value, int depth);
  absl::StatusOr<bool> KeepsProperties(const SchemaNode& node, const Json& value, int depth);

  SchemaNodes& nodes_;
  const SchemaSpelling& spelling_;
  const bool assert_formats_;
  Net& net_;
  Budget& budget_;
  int32_t blanks_ = 0;  // rules that all others share
  int32_t string_ = 0;
  absl::Status spelling_status_;
  std::string style_;            // what tells the spelling from others of one grammar
  SharedSets own_sets_;          // where none are shared
  const Dfa* within_ = nullptr;  // the texts that can be written
  std::map<unsigned, int32_t> any_plain_texts_;  // rules, by what they are not to be read as
  std::map<std::vector<std::pair<const Json*, int32_t>>, int32_t> rules_;  // by schema and scope
  std::deque<std::pair<int32_t, AllOf>> to_do_;
  std::map<std::string, Dfa> patterns_;  // and formats, with "format " before them
  std::deque<Dfa> dfas_;
};

int64_t CodePoints(const std::string& text);

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_COMPILER_H_
