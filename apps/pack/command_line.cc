#include "apps/pack/command_line.h"

#include <boost/program_options.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/arguments.h"

namespace ng::pack {
namespace {

constexpr const char* kEnding = ".ngw";

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  const boost::program_options::options_description known = OptionsOf(TheManual());
  std::vector<std::string> words;
  std::vector<std::string> options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "-m" && i + 1 < argc) {
      words.insert(words.begin(), argv[++i]);
      continue;
    }
    (argument.starts_with('-') ? options : words).push_back(argument);
    if (!argument.starts_with("--") || i + 1 == argc) continue;
    const auto* const option = known.find_nothrow(argument.substr(2), false);
    const bool value_follows = option != nullptr && option->semantic()->max_tokens() > 0;
    if (value_follows) options.emplace_back(argv[++i]);
  }
  NG_ASSIGN_OR_RETURN(const Arguments arguments, ParseArguments(options, known));
  CommandLine line;
  line.about = ReadAbout(arguments.values);
  line.verify = arguments.values.count("verify") != 0;
  if (line.about.asked()) return line;
  if (words.size() != 2) {
    return UsageError(
        absl::StrCat("the model and the packed file are needed, ng-pack MODEL FILE", kEnding,
                     "; given: ", words.empty() ? "neither" : absl::StrJoin(words, " ")));
  }
  line.packed = words[1];
  // A slip must not write over a file of a model.
  if (!line.packed.ends_with(kEnding)) {
    return UsageError(absl::StrCat(line.packed, ": the packed file's name must end in ", kEnding));
  }
  line.engine = EngineOptionsOf(arguments);
  line.engine.overrides.push_back("model.path=" + words[0]);
  if (line.verify) line.engine.overrides.push_back("model.packed=" + line.packed);
  return line;
}

Manual TheManual() {
  OptionGroup what = {"What to do", {}};
  what.options.add_options()("verify",
                             "read FILE and the model, and say whether FILE is what it would be");
  return {.program = "ng-pack",
          .summary = "write the weights of a model as the kernels read them",
          .uses = {"ng-pack MODEL FILE.ngw [--verify] [--model.weights=TYPE] [--section.key=value "
                   "...]"},
          .notes = {"Writes the weights of MODEL as the kernels read them. A run with "
                    "--model.packed=FILE.ngw then starts at once. Config keys are those of ng-run "
                    "--help all."},
          .examples = {"ng-pack model.gguf model.ngw --model.weights=int4"},
          .groups = {what, AboutOptions()}};
}

}  // namespace ng::pack
