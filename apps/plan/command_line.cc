#include "apps/plan/command_line.h"

#include <boost/program_options.hpp>

#include "apps/common/arguments.h"

namespace ng::plan {
namespace {

namespace po = boost::program_options;

constexpr int64_t kMostTokens = int64_t{1} << 31;

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  NG_ASSIGN_OR_RETURN(const Arguments arguments,
                      ParseArguments(argc, argv, OptionsOf(TheManual())));
  const po::variables_map& values = arguments.values;
  CommandLine line;
  line.engine = EngineOptionsOf(arguments);
  line.about = ReadAbout(values);
  const auto tokens = [&](const char* option, int64_t min) {
    return ParseWholeNumber(option, values[option].as<std::string>(), {min, kMostTokens});
  };
  NG_ASSIGN_OR_RETURN(line.run.prompt_tokens, tokens("prompt-tokens", 1));
  NG_ASSIGN_OR_RETURN(line.run.decode_tokens, tokens("decode-tokens", 0));
  NG_ASSIGN_OR_RETURN(line.jsonl, WantsJsonl(arguments));
  return line;
}

Manual TheManual() {
  OptionGroup what = {"What to plan", {}};
  what.options.add_options()                            //
      ("config", TextValue("FILE"), "the config file")  //
      ("random-weights", TextValue("FILE"),
       "a config.json whose shape is planned, in place of model.path")              //
      ("prompt-tokens", TextValue("N", "512"), "tokens of each sequence's prompt")  //
      ("decode-tokens", TextValue("N", "64"),
       "tokens that are fed one by one after the prompt; 0: none");
  OptionGroup output = {"Output", {}};
  output.options.add_options()  //
      ("output", TextValue("text|jsonl", "text"), "text, or jsonl: one object on one line");
  return {.program = "ng-plan",
          .summary = "say whether a run fits, what memory it takes and what it computes",
          .uses = {"ng-plan --config FILE [--section.key=value ...] [what] [output]"},
          .notes = {"Config keys are those of ng-run --help all. No weights are read."},
          .examples = {"ng-plan --config demo.ini --prompt-tokens 200 --decode-tokens 50",
                       "ng-plan --model.path=model.gguf --model.weights=int4"},
          .groups = {what, output, AboutOptions()}};
}

}  // namespace ng::plan
