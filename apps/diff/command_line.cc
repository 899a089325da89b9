#include "apps/diff/command_line.h"

#include <boost/program_options.hpp>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/common/arguments.h"

namespace ng::diff {
namespace {

namespace po = boost::program_options;

po::options_description Options() {
  const auto text = [] { return po::value<std::string>()->value_name("ARG"); };
  po::options_description what("What to run (A)", kHelpWidth);
  what.add_options()("config", text(), "the config file");
  AddPromptOptions(&what);
  po::options_description compare("What to compare it with (B): one of these", kHelpWidth);
  compare.add_options()  //
      ("against", po::value<std::vector<std::string>>()->value_name("SECTION.KEY=VALUE"),
       "A with this change; may be given several times")  //
      ("against-config", text(),
       "another config file; --section.key=value on the command line is A's alone")  //
      ("against-tensors", text(),
       "a safetensors file with rows of points, as ng-run --save-tensors and "
       "tests/peers/export_points.py write it; without a prompt option its prompts are run");
  po::options_description output("Output", kHelpWidth);
  output.add_options()("output", text()->default_value("text"),
                       "text or jsonl: an object for each point, and one with the verdict");
  po::options_description about("About", kHelpWidth);
  about.add_options()("help", "this text")("version", "version, instruction set level, build tag");
  po::options_description all(kHelpWidth);
  all.add(what).add(compare).add(output).add(about);
  return all;
}

absl::Status ReadOther(const Arguments& arguments, CommandLine* line) {
  NG_ASSIGN_OR_RETURN(line->against, ParseSettings(arguments, "against"));
  const std::pair<const char*, std::string*> files[] = {
      {"against-config", &line->against_config}, {"against-tensors", &line->against_tensors}};
  int n_given = line->against.empty() ? 0 : 1;
  for (const auto& [name, file] : files) {
    if (arguments.values.count(name) == 0) continue;
    ++n_given;
    *file = arguments.values[name].as<std::string>();
    if (file->empty()) return UsageError(absl::StrCat("--", name, " needs a file name"));
  }
  if (n_given == 1 || line->help || line->version) return absl::OkStatus();
  return UsageError(
      n_given == 0 ? "nothing to compare with; give --against SECTION.KEY=VALUE, --against-config "
                     "FILE or --against-tensors FILE"
                   : "only one of --against, --against-config, --against-tensors may be given");
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  NG_ASSIGN_OR_RETURN(const Arguments arguments, ParseArguments(argc, argv, Options()));
  CommandLine line;
  line.engine = EngineOptionsOf(arguments);
  line.help = arguments.values.count("help") != 0;
  line.version = arguments.values.count("version") != 0;
  NG_RETURN_IF_ERROR(ReadPromptOptions(arguments.values, &line));
  NG_RETURN_IF_ERROR(ReadOther(arguments, &line));
  line.reads_pipe = line.against_tensors.empty();
  NG_ASSIGN_OR_RETURN(line.jsonl, WantsJsonl(arguments));
  return line;
}

std::string UsageText() {
  std::ostringstream out;
  out << "usage: ng-diff --config FILE [--section.key=value ...] prompt against [output]\n"
      << "Config keys are those of ng-run --help all. Both sides run along A's tokens, and every "
         "point of every\nlayer is compared bit by bit. Exit code 0: equal; 8: different.\n"
      << Options();
  return out.str();
}

}  // namespace ng::diff
