// JSON as an item of a grammar: the texts of a schema, and the arguments of a call of a tool.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_CALLS_TOOL_ARGUMENTS_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_CALLS_TOOL_ARGUMENTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "plugins/sampler/grammar/automata/net.h"
#include "plugins/sampler/grammar/schema/spelling.h"

namespace ng::grammar {

// Errors: UsageError with a JSON pointer.
absl::StatusOr<Part> AddSchema(std::string_view schema, const SchemaSpelling& spelling, Net& net);

// `item` is an object of JSON:
//
//   "tool"     its name, for errors and notes
//   "schema"   of the arguments, which are an object
//   "loose"    what of the schema cannot be kept is taken out of it, and told in `notes`; a
//              keyword that is not known says nothing. Without it both are errors
//   "in_text"  the arguments are written as JSON within a string of JSON
//   "python"   they have literals of Python; "keywords": and are keywords between ( and );
//              "opened": the ( is there
//   "quote"    a mark that is around texts, in which nothing is escaped; names have no quotes
//   "members"  the arguments are written one by one, texts as they are: {"before", "between",
//              "between_others", "after", "separator", "end"} are marks, and "read_as" says of
//              names as what a value is read where no mark tells: a list of "text", "number",
//              "boolean", "null" and "structure"
//
// A mark is a list of texts and of numbers of tokens. Nothing is written that would be read back as
// something else.
//
// Errors: UsageError with the tool's name and a JSON pointer.
absl::StatusOr<Part> AddArguments(std::string_view item, SchemaSpelling spelling, Net& net,
                                  std::vector<std::string>* notes);

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_CALLS_TOOL_ARGUMENTS_H_
