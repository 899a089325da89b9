#include "apps/plan/command_line.h"

#include <boost/program_options.hpp>

#include "apps/common/arguments.h"
#include "ng/fabric.h"

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
  line.any_prompt = values["prompt-tokens"].defaulted();
  line.any_decode = values["decode-tokens"].defaulted();
  NG_ASSIGN_OR_RETURN(line.run.prompt_tokens, tokens("prompt-tokens", 1));
  NG_ASSIGN_OR_RETURN(line.run.decode_tokens, tokens("decode-tokens", 0));
  NG_ASSIGN_OR_RETURN(const int64_t ranks,
                      ParseWholeNumber("ranks", values["ranks"].as<std::string>(), {1, kMaxRanks}));
  line.engine.plan_ranks = static_cast<int>(ranks);
  NG_ASSIGN_OR_RETURN(
      line.run.link_mbit,
      ParseWholeNumber("link-mbit", values["link-mbit"].as<std::string>(), {1, 10000000}));
  NG_ASSIGN_OR_RETURN(
      line.run.link_us,
      ParseWholeNumber("link-us", values["link-us"].as<std::string>(), {0, 10000000}));
  NG_ASSIGN_OR_RETURN(
      line.run.memory_mbyte,
      ParseWholeNumber("memory-mbyte", values["memory-mbyte"].as<std::string>(), {1, 100000000}));
  NG_ASSIGN_OR_RETURN(line.jsonl, WantsJsonl(arguments));
  return line;
}

Manual TheManual() {
  OptionGroup what = {"What to plan", {}};
  what.options.add_options()                            //
      ("config", TextValue("FILE"), "the config file")  //
      ("random-weights", TextValue("FILE"),
       "a config.json whose shape is planned, in place of model.path")  //
      ("prompt-tokens", TextValue("N", "512"),
       "tokens of each sequence's prompt; without it no more than fit the context")  //
      ("decode-tokens", TextValue("N", "64"),
       "tokens that are fed one by one after the prompt; 0: none")  //
      ("ranks", TextValue("N", "1"),
       "processes that compute together (fabric.name); the tables are of the one that takes "
       "most")  //
      ("link-mbit", TextValue("N", "1000"),
       "for --ranks: what each machine sends, Mbit a second")                                  //
      ("link-us", TextValue("N", "50"), "for --ranks: microseconds until a message is there")  //
      ("memory-mbyte", TextValue("N", "20000"),
       "for --ranks: what each machine reads of weights and cache while it decodes, Mbyte a "
       "second");
  OptionGroup output = {"Output", {}};
  output.options.add_options()  //
      ("output", TextValue("text|jsonl", "text"), "text, or jsonl: one object on one line");
  return {.program = "ng-plan",
          .summary = "say whether a run fits, what memory it takes and what it computes",
          .uses = {"ng-plan MODEL [--section.key=value ...] [what] [output]",
                   "ng-plan --config FILE [--section.key=value ...] [what] [output]"},
          .notes = {"Config keys are those of ng-run --help all. No weights are read."},
          .examples = {"ng-plan --config demo.ini --prompt-tokens 200 --decode-tokens 50",
                       "ng-plan model.gguf --model.weights=int4"},
          .groups = {what, output, AboutOptions()}};
}

}  // namespace ng::plan
