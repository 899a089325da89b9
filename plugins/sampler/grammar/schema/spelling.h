// How the answers of a schema are written.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_SPELLING_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_SPELLING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plugins/sampler/grammar/automata/dfa.h"

namespace ng::grammar {

// A mark of a format: texts and tokens in their order.
struct MarkPiece {
  std::string text = {};
  int32_t token = -1;  // >= 0: this token, and no text
};
using Mark = std::vector<MarkPiece>;

// Arguments that are written one by one: names and texts as they are, other values as JSON.
struct MemberSpelling {
  Mark before = {};   // each name
  Mark between = {};  // a name and its value
  Mark between_others = {};
  bool tells_texts = false;  // between_others stands in place of between where the value is no text
  Mark after = {};           // each value
  Mark separator = {};
  Mark end = {};
  // As what a value without a mark of its type is read, by name: bits of ReadAs. Not listed: any.
  std::map<std::string, unsigned> read_as = {};
};
enum ReadAs : unsigned {
  kReadAsText = 1,
  kReadAsNumber = 2,
  kReadAsBoolean = 4,
  kReadAsNull = 8,
  kReadAsStructure = 16,
  kReadAsAny = 31,
};

// Sets of texts that the schemas of one grammar share, by what they are.
using SharedSets = std::map<std::string, Dfa>;

struct SchemaSpelling {
  enum class Style {
    kJson,
    kPython,  // literals of Python
    kQuoted,  // texts between marks, in which nothing is escaped, and names without quotes
    kMembers,
  };

  bool assert_formats = true;
  bool compact = false;           // nothing between the parts of the answer
  bool unknown_keywords = false;  // they say nothing; else they are errors
  Style style = Style::kJson;
  bool keywords = false;        // of kPython: arguments are keywords in ( )
  bool opened = false;          // the bracket of the keywords is written already
  Mark quote = {};              // of kQuoted
  MemberSpelling members = {};  // of kMembers
  SharedSets* sets = nullptr;   // null: none are shared

  bool has_keywords() const { return style == Style::kPython && keywords; }
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_SPELLING_H_
