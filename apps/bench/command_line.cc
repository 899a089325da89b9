#include "apps/bench/command_line.h"

#include <boost/program_options.hpp>
#include <sstream>

#include "apps/common/arguments.h"

namespace ng::bench {
namespace {

namespace po = boost::program_options;

constexpr int64_t kMostTokens = int64_t{1} << 31;
constexpr int64_t kMostSequences = 4096;
constexpr int64_t kMostThreads = 1024;
constexpr int64_t kMostRounds = 10000;

po::options_description Options() {
  const auto text = [](const char* value) {
    return po::value<std::string>()->value_name("ARG")->default_value(value);
  };
  po::options_description what("What to measure", kHelpWidth);
  const auto unset = [] { return po::value<std::string>()->value_name("ARG"); };
  what.add_options()                          //
      ("config", unset(), "the config file")  //
      ("random-weights", unset(),
       "a config.json whose shape is measured with made-up weights, in place of model.path")   //
      ("prompt-tokens", text("512"), "tokens of the prefill; 0: no prefill is measured")       //
      ("decode-tokens", text("64"), "decode steps; 0: no decode is measured")                  //
      ("depth", text("0"), "tokens in the cache before the decode steps; or several: 0,1024")  //
      ("batch", text("1"), "sequences side by side; or several: 1,8")                          //
      ("threads", unset(), "threads, in place of run.threads; or several: 1,2")                //
      ("repeat", text("5"), "rounds after one that warms up; the medians are printed");
  po::options_description output("Output", kHelpWidth);
  output.add_options()  //
      ("output", text("text"),
       "text or jsonl; a line for each combination of threads, batch and depth");
  po::options_description about("About", kHelpWidth);
  about.add_options()("help", "this text")("version", "version, instruction set level, build tag");
  po::options_description all(kHelpWidth);
  all.add(what).add(output).add(about);
  return all;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  NG_ASSIGN_OR_RETURN(const Arguments arguments, ParseArguments(argc, argv, Options()));
  const po::variables_map& values = arguments.values;
  CommandLine line;
  line.engine = EngineOptionsOf(arguments);
  line.help = values.count("help") != 0;
  line.version = values.count("version") != 0;
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
  if (line.prompt_tokens == 0 && line.decode_tokens == 0) {
    return UsageError("--prompt-tokens 0 and --decode-tokens 0 leave nothing to measure");
  }
  return line;
}

std::string UsageText() {
  std::ostringstream out;
  out << "usage: ng-bench --config FILE [--section.key=value ...] [what] [output]\n"
      << "Config keys are those of ng-run --help.\n"
      << Options();
  return out.str();
}

}  // namespace ng::bench
