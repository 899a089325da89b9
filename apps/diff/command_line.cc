#include "apps/diff/command_line.h"

#include <boost/program_options.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/common/arguments.h"

namespace ng::diff {
namespace {

namespace po = boost::program_options;

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
  if (n_given == 1 || line->about.asked()) return absl::OkStatus();
  return UsageError(
      n_given == 0 ? "nothing to compare with; give --against SECTION.KEY=VALUE, --against-config "
                     "FILE or --against-tensors FILE"
                   : "only one of --against, --against-config, --against-tensors may be given");
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  NG_ASSIGN_OR_RETURN(const Arguments arguments,
                      ParseArguments(argc, argv, OptionsOf(TheManual())));
  CommandLine line;
  line.engine = EngineOptionsOf(arguments);
  line.about = ReadAbout(arguments.values);
  line.texts = arguments.texts;
  NG_RETURN_IF_ERROR(ReadPromptOptions(arguments.values, &line));
  NG_RETURN_IF_ERROR(ReadOther(arguments, &line));
  line.reads_pipe = line.against_tensors.empty();
  NG_ASSIGN_OR_RETURN(line.jsonl, WantsJsonl(arguments));
  line.wide = arguments.values.count("wide") != 0;
  line.by_position = arguments.values.count("by-position") != 0;
  if (line.by_position && !line.jsonl && !line.about.asked()) {
    return UsageError("--by-position is for --output jsonl; --top shows positions in the text");
  }
  line.top = arguments.values["top"].as<int>();
  if (line.top < 0) return UsageError(absl::StrCat("--top is ", line.top, "; allowed: 0 or more"));
  return line;
}

Manual TheManual() {
  OptionGroup what = {"What to run (A)", {}};
  what.options.add_options()("config", TextValue("FILE"), "the config file");
  AddPromptOptions(&what.options);
  OptionGroup compare = {"What to compare it with (B): one of these", {}};
  compare.options.add_options()  //
      ("against", po::value<std::vector<std::string>>()->value_name("SECTION.KEY=VALUE"),
       "A with this change; may be given several times")  //
      ("against-config", TextValue("FILE"),
       "another config file; --section.key=value on the command line is A's alone")  //
      ("against-tensors", TextValue("FILE"),
       "a safetensors file with rows of points, as ng-run --save-tensors and "
       "tests/peers/export_points.py write it; without a prompt option its prompts are run");
  OptionGroup output = {"Output", {}};
  output.options.add_options()  //
      ("output", TextValue("text|jsonl", "text"),
       "text or jsonl: an object for each point, and one with the verdict")          //
      ("by-position", "with --output jsonl: rms/rms of each row that differs, too")  //
      ("top", po::value<int>()->value_name("N")->default_value(3),
       "how many positions to show, those whose residual streams differ most")  //
      ("wide", kWideHelp);
  return {.program = "ng-diff",
          .summary = "compare two configs at every point of every layer",
          .uses = {"ng-diff MODEL against [TEXT ...]",
                   "ng-diff --config FILE [--section.key=value ...] prompt against [output]"},
          .notes = {"Config keys are those of ng-run --help all. Both sides run along A's tokens, "
                    "and every point of every layer is compared bit by bit. Exit code 0: equal; 8: "
                    "different."},
          .examples = {"ng-diff --config demo.ini --message \"Who art thou?\" --against "
                       "cache.codec=int8"},
          .groups = {what, compare, output, AboutOptions()}};
}

}  // namespace ng::diff
