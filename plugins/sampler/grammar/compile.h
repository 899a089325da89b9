// The three languages in which a grammar can be written, each to a Program.
//
// Called in create. Errors: UsageError in one line with the position (or, in a schema, the JSON
// pointer), what was met and what can stand there. Time and memory are bounded for any text, and
// CompileSettings::stop (PluginContext's, may be null) ends them.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_COMPILE_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_COMPILE_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "plugins/sampler/grammar/automata/net.h"
#include "plugins/sampler/grammar/automata/program.h"
#include "plugins/sampler/grammar/schema/spelling.h"

namespace ng::grammar {

struct CompileSettings {
  SchemaSpelling spelling = {};
  // What the answer has before it comes to the grammar: items of GBNF. Empty: nothing.
  std::string_view before = {};
  const std::atomic<bool>* stop = nullptr;
};

// Errors in `before` begin so.
inline constexpr char kBeforeOption[] = "sampler.grammar.before: ";

// The whole answer matches the pattern (regex.h says which language).
absl::StatusOr<Program> CompileRegex(std::string_view pattern,
                                     const CompileSettings& settings = {});

// GBNF as llama.cpp has it, and more (gbnf.cc); the answer is the rule `root`.
absl::StatusOr<Program> CompileGbnf(std::string_view text, const CompileSettings& settings = {});

// The answer is a JSON text that the schema allows.
absl::StatusOr<Program> CompileSchema(std::string_view text, const CompileSettings& settings = {});

// The same of an option's value, which is the text or the name of a file with it.
absl::StatusOr<Program> CompileGbnfOption(std::string_view value, const CompileSettings& settings);
absl::StatusOr<Program> CompileSchemaOption(std::string_view value,
                                            const CompileSettings& settings);

// The rule of what comes before, and then `root`; nothing before: `root`.
absl::StatusOr<int32_t> AddBefore(std::string_view before, int32_t root, Net& net);

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_COMPILE_H_
