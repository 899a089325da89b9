#include "apps/plan/command_line.h"

#include <boost/program_options.hpp>
#include <charconv>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
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
      ("decode-tokens", text("64"), "tokens fed one by one after it; 0: none");
  po::options_description output("Output", kHelpWidth);
  output.add_options()("output", text("text"), "text, or jsonl: one object on one line");
  po::options_description about("About", kHelpWidth);
  about.add_options()("help", "this text")("version", "version, instruction set level, build tag");
  po::options_description all(kHelpWidth);
  all.add(what).add(output).add(about);
  return all;
}

absl::StatusOr<int64_t> ParseTokens(const po::variables_map& values, const char* option,
                                    int64_t min) {
  const std::string& text = values[option].as<std::string>();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min ||
      value > kMostTokens) {
    return UsageError(absl::StrCat("--", option, ": '", text, "' must be a whole number in [", min,
                                   ", ", kMostTokens, "]"));
  }
  return value;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  NG_ASSIGN_OR_RETURN(const Arguments arguments, ParseArguments(argc, argv, Options()));
  const po::variables_map& values = arguments.values;
  CommandLine line;
  line.overrides = arguments.overrides;
  if (values.count("config") != 0) line.config_file = values["config"].as<std::string>();
  if (values.count("random-weights") != 0) {
    line.random_weights = values["random-weights"].as<std::string>();
  }
  line.help = values.count("help") != 0;
  line.version = values.count("version") != 0;
  NG_ASSIGN_OR_RETURN(line.run.prompt_tokens, ParseTokens(values, "prompt-tokens", 1));
  NG_ASSIGN_OR_RETURN(line.run.decode_tokens, ParseTokens(values, "decode-tokens", 0));
  const std::string& output = values["output"].as<std::string>();
  if (output != "text" && output != "jsonl") {
    return UsageError("--output=" + output + ": must be text or jsonl");
  }
  line.jsonl = output == "jsonl";
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
