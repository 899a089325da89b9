#include "apps/bench/command_line.h"

#include <boost/program_options.hpp>

#include "apps/common/arguments.h"

namespace ng::bench {
namespace {

namespace po = boost::program_options;

constexpr int64_t kMostTokens = int64_t{1} << 31;
constexpr int64_t kMostSequences = 4096;
constexpr int64_t kMostThreads = 1024;
constexpr int64_t kMostRounds = 10000;

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  NG_ASSIGN_OR_RETURN(const Arguments arguments,
                      ParseArguments(argc, argv, OptionsOf(TheManual())));
  const po::variables_map& values = arguments.values;
  CommandLine line;
  line.engine = EngineOptionsOf(arguments);
  line.about = ReadAbout(values);
  const auto number = [&](const char* option, WholeRange range) {
    return ParseWholeNumber(option, values[option].as<std::string>(), range);
  };
  NG_ASSIGN_OR_RETURN(line.prompt_tokens, number("prompt-tokens", {0, kMostTokens}));
  NG_ASSIGN_OR_RETURN(line.decode_tokens, number("decode-tokens", {0, kMostTokens}));
  NG_ASSIGN_OR_RETURN(line.repeat, number("repeat", {1, kMostRounds}));
  NG_ASSIGN_OR_RETURN(line.depths, ParseWholeNumbers(arguments, "depth", {0, kMostTokens}));
  NG_ASSIGN_OR_RETURN(line.batches, ParseWholeNumbers(arguments, "batch", {1, kMostSequences}));
  NG_ASSIGN_OR_RETURN(line.threads, ParseWholeNumbers(arguments, "threads", {0, kMostThreads}));
  NG_ASSIGN_OR_RETURN(line.jsonl, WantsJsonl(arguments));
  line.wide = arguments.values.count("wide") != 0;
  if (line.prompt_tokens == 0 && line.decode_tokens == 0) {
    return UsageError("--prompt-tokens 0 and --decode-tokens 0 leave nothing to measure");
  }
  return line;
}

Manual TheManual() {
  OptionGroup what = {"What to measure", {}};
  what.options.add_options()                            //
      ("config", TextValue("FILE"), "the config file")  //
      ("random-weights", TextValue("FILE"),
       "a config.json whose shape is measured with made-up weights, in place of model.path")  //
      ("prompt-tokens", TextValue("N", "512"),
       "tokens of the prefill; 0: no prefill is measured")                               //
      ("decode-tokens", TextValue("N", "64"), "decode steps; 0: no decode is measured")  //
      ("depth", TextValue("N,...", "0"),
       "tokens in the cache before the decode steps; or several: 0,1024")                   //
      ("batch", TextValue("N,...", "1"), "sequences side by side; or several: 1,8")         //
      ("threads", TextValue("N,..."), "threads, in place of run.threads; or several: 1,2")  //
      ("repeat", TextValue("N", "5"), "rounds after one that warms up; the medians are printed");
  OptionGroup output = {"Output", {}};
  output.options.add_options()  //
      ("output", TextValue("text|jsonl", "text"),
       "text or jsonl; a line for each combination of threads, batch and depth")  //
      ("wide", kWideHelp);
  return {.program = "ng-bench",
          .summary = "measure how fast a config prefills and decodes",
          .uses = {"ng-bench --config FILE [--section.key=value ...] [what] [output]"},
          .notes = {"Config keys are those of ng-run --help all."},
          .examples = {"ng-bench --config demo.ini --prompt-tokens 128 --depth 0,128 --batch 1,4",
                       "ng-bench --random-weights config.json --model.weights=bf16"},
          .groups = {what, output, AboutOptions()}};
}

}  // namespace ng::bench
