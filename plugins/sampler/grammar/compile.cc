#include "plugins/sampler/grammar/compile.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/sampler/grammar/automata/regex.h"
#include "plugins/sampler/grammar/option_text.h"
#include "plugins/sampler/grammar/schema/compiler.h"

namespace ng::grammar {

absl::StatusOr<Program> CompileRegex(std::string_view pattern, const std::atomic<bool>* stop) {
  Budget budget(stop);
  Net net(budget);
  NG_ASSIGN_OR_RETURN(const Part part, AddTexts(pattern, /*anywhere=*/false, net));
  const int32_t root = net.NewRule("regex");
  net.SetRule(root, part);
  return Program::Make(net, root);
}

absl::StatusOr<Program> CompileSchema(std::string_view text, const SchemaSpelling& spelling,
                                      const std::atomic<bool>* stop) {
  Budget budget(stop);
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<SchemaNodes> nodes,
                      SchemaNodes::Parse(text, spelling, budget));
  Net net(budget);
  SchemaCompiler compiler(*nodes, spelling, net);
  NG_ASSIGN_OR_RETURN(const int32_t root, compiler.Compile());
  return Program::Make(net, root);
}

absl::StatusOr<Program> CompileSchemaOption(std::string_view value, const SchemaSpelling& spelling,
                                            const std::atomic<bool>* stop) {
  const size_t begin = value.find_first_not_of(" \t\r\n");
  const bool is_text = begin != value.npos && (value[begin] == '{' || value == "true");
  if (is_text) return CompileSchema(value, spelling, stop);
  NG_ASSIGN_OR_RETURN(const std::string text, ReadOptionFile(value));
  absl::StatusOr<Program> program = CompileSchema(text, spelling, stop);
  return program.ok() ? std::move(program)
                      : Annotate(program.status(), absl::StrCat("'", std::string(value), "' "));
}

}  // namespace ng::grammar
