#include "apps/eval/command_line.h"

#include <boost/program_options.hpp>

#include "absl/strings/str_cat.h"
#include "apps/common/arguments.h"
#include "apps/eval/lab/options.h"

namespace ng::eval {
namespace {

namespace po = boost::program_options;

constexpr int64_t kMostTokens = int64_t{1} << 31;
constexpr int64_t kMostSamples = 100000;
constexpr int64_t kMostRounds = 10000;

absl::Status ReadSource(const po::variables_map& values, CommandLine* line) {
  const auto text = [&](const char* name) -> std::optional<std::string> {
    if (values.count(name) == 0) return std::nullopt;
    return values[name].as<std::string>();
  };
  line->text_file = text("text-file");
  line->ids_file = text("ids-file");
  line->save_ids = text("save-ids");
  if (line->save_ids && line->save_ids->empty()) return UsageError("--save-ids needs a file name");
  const std::optional<std::string> samples = text("samples");
  if (samples) {
    NG_ASSIGN_OR_RETURN(line->samples, ParseWholeNumber("samples", *samples, {1, kMostSamples}));
  }
  if (const std::optional<std::string> window = text("window")) {
    NG_ASSIGN_OR_RETURN(line->window, ParseWholeNumber("window", *window, {1, kMostTokens}));
  }
  const int n_sources = line->text_file.has_value() + line->ids_file.has_value() +
                        static_cast<int>(samples.has_value());
  if (n_sources > 1) {
    return UsageError("only one of --text-file, --ids-file, --samples may be given");
  }
  if (n_sources == 0 && !line->about.asked() && !line->lab.on) {
    return UsageError("nothing to score; give one of --text-file, --ids-file, --samples");
  }
  return absl::OkStatus();
}

absl::Status ReadComparison(const Arguments& arguments, CommandLine* line) {
  const po::variables_map& values = arguments.values;
  NG_ASSIGN_OR_RETURN(line->against, ParseSettings(arguments, "against"));
  line->card = values.count("card") != 0;
  NG_ASSIGN_OR_RETURN(line->depths, ParseWholeNumbers(arguments, "depths", {0, kMostTokens}));
  NG_ASSIGN_OR_RETURN(line->repeat, ParseWholeNumber("repeat", values["repeat"].as<std::string>(),
                                                     {0, kMostRounds}));
  if (line->card && !line->against.empty()) {
    return UsageError("--card compares with f32; --against may not be given with it");
  }
  if (line->lab.on && !line->card) return UsageError("options of a card of methods need --card");
  for (const char* option : {"depths", "repeat"}) {
    if (line->card || values.count(option) == 0 || values[option].defaulted()) continue;
    return UsageError(absl::StrCat("--", option, " needs --card"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  NG_ASSIGN_OR_RETURN(const Arguments arguments,
                      ParseArguments(WithMethods({argv + 1, argv + argc}), OptionsOf(TheManual())));
  CommandLine line;
  line.engine = EngineOptionsOf(arguments);
  line.about = ReadAbout(arguments.values);
  NG_ASSIGN_OR_RETURN(line.lab, ReadLab(arguments));
  NG_RETURN_IF_ERROR(ReadSource(arguments.values, &line));
  NG_RETURN_IF_ERROR(ReadComparison(arguments, &line));
  NG_ASSIGN_OR_RETURN(line.jsonl, WantsJsonl(arguments));
  line.wide = arguments.values.count("wide") != 0;
  return line;
}

Manual TheManual() {
  OptionGroup what = {"What to score: a text, ids or samples", {}};
  what.options.add_options()                                                               //
      ("config", TextValue("FILE"), "the config file")                                     //
      ("text-file", TextValue("FILE"), "a file whose whole text is one sequence")          //
      ("ids-file", TextValue("FILE"), "a file with a sequence of token ids on each line")  //
      ("samples", TextValue("N"),
       "score this many sequences of --window tokens, drawn from the model")  //
      ("window", TextValue("N"),
       "tokens that are fed to an empty cache; default: cache.max_tokens or the model's context")  //
      ("save-ids", TextValue("FILE"), "a file to write the scored ids to, for --ids-file");
  OptionGroup compare = {"What to compare", {}};
  compare.options.add_options()  //
      ("against", po::value<std::vector<std::string>>()->value_name("SECTION.KEY=VALUE"),
       "compare with the config that has this change; may be given several times")  //
      ("card",
       "every cache and codec against f32: quality, bytes and speed; --card=METHOD,...: "
       "these methods, see below")  //
      ("depths", TextValue("N,..."),
       "with --card: tokens in the cache before decode is timed; default: 0 and all that fit, or "
       "the lengths of tasks")  //
      ("repeat", TextValue("N", "5"),
       "with --card: rounds after one that warms up; the medians are printed; 0: no speeds");
  OptionGroup output = {"Output", {}};
  output.options.add_options()  //
      ("output", TextValue("text|jsonl", "text"),
       "text or jsonl: one object, with --card one for each row")  //
      ("wide", kWideHelp);
  return {
      .program = "ng-eval",
      .summary = "measure perplexity, and how far two configs are apart",
      .uses = {"ng-eval --config FILE [--section.key=value ...] what [compare] [output]"},
      .notes = {"Config keys are those of ng-run --help all. Tokens are fed run.prefill_chunk at "
                "a time, here 256 unless it is set; 1: one by one. The figures do not depend on "
                "it."},
      .examples =
          {"ng-eval --config demo.ini --text-file book.txt --against cache.codec=int8",
           "ng-eval FILE.gguf --card=window,keydiff,int8 --budgets=256,512 --tasks=needle,lookup "
           "--lengths=1k,2k --report card.html --lines card.jsonl"},
      .groups = {what, compare, LabGroup(), output, AboutOptions()}};
}

}  // namespace ng::eval
