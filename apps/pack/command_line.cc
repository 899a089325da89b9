#include "apps/pack/command_line.h"

#include <boost/program_options.hpp>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/arguments.h"

namespace ng::pack {
namespace {

namespace po = boost::program_options;

constexpr const char* kEnding = ".ngw";

po::options_description Options() {
  po::options_description what("What to do", kHelpWidth);
  what.add_options()("verify", "read FILE and the model, and say whether FILE is what it would be");
  po::options_description about("About", kHelpWidth);
  about.add_options()("help", "this text")("version", "version, instruction set level, build tag");
  po::options_description all(kHelpWidth);
  all.add(what).add(about);
  return all;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  std::vector<std::string> words;
  std::vector<std::string> options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    (argument.starts_with('-') ? options : words).push_back(argument);
  }
  NG_ASSIGN_OR_RETURN(const Arguments arguments, ParseArguments(options, Options()));
  CommandLine line;
  line.help = arguments.values.count("help") != 0;
  line.version = arguments.values.count("version") != 0;
  line.verify = arguments.values.count("verify") != 0;
  if (line.help || line.version) return line;
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

std::string UsageText() {
  std::ostringstream out;
  out << "usage: ng-pack MODEL FILE.ngw [--verify] [--model.weights=TYPE] [--section.key=value "
         "...]\n"
      << "Writes the weights of MODEL as the kernels read them. A run with "
         "--model.packed=FILE.ngw\n"
      << "then starts at once. Config keys are those of ng-run --help.\n"
      << Options();
  return out.str();
}

}  // namespace ng::pack
