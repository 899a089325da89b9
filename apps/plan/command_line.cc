#include "apps/plan/command_line.h"

#include <boost/program_options.hpp>
#include <sstream>

#include "apps/common/arguments.h"

namespace ng::plan {
namespace {

namespace po = boost::program_options;

constexpr int64_t kMostTokens = int64_t{1} << 31;

po::options_description Options() {
  const auto text = [](const char* value) {
    return po::value<std::string>()->value_name("ARG")->default_value(value);
  };
  const auto unset = [] { return po::value<std::string>()->value_name("ARG"); };
  po::options_description what("What to plan", kHelpWidth);
  what.add_options()                          //
      ("config", unset(), "the config file")  //
      ("random-weights", unset(),
       "a config.json whose shape is planned, in place of model.path")    //
      ("prompt-tokens", text("512"), "tokens of each sequence's prompt")  //
      ("decode-tokens", text("64"), "tokens that are fed one by one after the prompt; 0: none");
  po::options_description output("Output", kHelpWidth);
  output.add_options()("output", text("text"), "text, or jsonl: one object on one line");
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
  const auto tokens = [&](const char* option, int64_t min) {
    return ParseWholeNumber(option, values[option].as<std::string>(), {min, kMostTokens});
  };
  NG_ASSIGN_OR_RETURN(line.run.prompt_tokens, tokens("prompt-tokens", 1));
  NG_ASSIGN_OR_RETURN(line.run.decode_tokens, tokens("decode-tokens", 0));
  NG_ASSIGN_OR_RETURN(line.jsonl, WantsJsonl(arguments));
  return line;
}

std::string UsageText() {
  std::ostringstream out;
  out << "usage: ng-plan --config FILE [--section.key=value ...] [what] [output]\n"
      << "Config keys are those of ng-run --help. No weights are read.\n"
      << Options();
  return out.str();
}

}  // namespace ng::plan
