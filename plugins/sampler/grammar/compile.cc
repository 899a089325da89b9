#include "plugins/sampler/grammar/compile.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/automata/regex.h"
#include "plugins/sampler/grammar/option_text.h"
#include "plugins/sampler/grammar/schema/compiler.h"

namespace ng::grammar {

absl::StatusOr<Program> CompileRegex(std::string_view pattern, const CompileSettings& settings) {
  Budget budget(settings.stop);
  Net net(budget);
  NG_ASSIGN_OR_RETURN(const Part part, AddTexts(pattern, /*anywhere=*/false, net));
  const int32_t regex = net.NewRule("regex");
  net.SetRule(regex, part);
  NG_ASSIGN_OR_RETURN(const int32_t root, AddBefore(settings.before, regex, net));
  return Program::Make(net, root);
}

absl::StatusOr<Program> CompileSchema(std::string_view text, const CompileSettings& settings) {
  Budget budget(settings.stop);
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<SchemaNodes> nodes,
                      SchemaNodes::Parse(text, settings.spelling, budget));
  Net net(budget);
  SchemaCompiler compiler(*nodes, settings.spelling, net);
  NG_ASSIGN_OR_RETURN(const int32_t json, compiler.Compile());
  NG_ASSIGN_OR_RETURN(const int32_t root, AddBefore(settings.before, json, net));
  return Program::Make(net, root);
}

absl::StatusOr<Program> CompileSchemaOption(std::string_view value,
                                            const CompileSettings& settings) {
  const size_t begin = value.find_first_not_of(" \t\r\n");
  const bool is_text = begin != value.npos && (value[begin] == '{' || value == "true");
  if (is_text) return CompileSchema(value, settings);
  NG_ASSIGN_OR_RETURN(const std::string text, ReadOptionFile(value));
  absl::StatusOr<Program> program = CompileSchema(text, settings);
  return program.ok() ? std::move(program)
                      : Annotate(program.status(), absl::StrCat("'", std::string(value), "' "));
}

}  // namespace ng::grammar
