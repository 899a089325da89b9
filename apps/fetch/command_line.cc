#include "apps/fetch/command_line.h"

#include <boost/program_options.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/arguments.h"
#include "apps/fetch/hub/listing.h"
#include "ng/named_models.h"

namespace ng::fetch {
namespace {

namespace po = boost::program_options;

constexpr const char* kMain = "main";

// Splits what is no option from the rest.
void Split(int argc, const char* const* argv, const po::options_description& known,
           std::vector<std::string>* words, std::vector<std::string>* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    (argument.starts_with('-') ? options : words)->push_back(argument);
    if (!argument.starts_with("--") || i + 1 == argc) continue;
    const auto* const option = known.find_nothrow(argument.substr(2), false);
    if (option != nullptr && option->semantic()->max_tokens() > 0) options->emplace_back(argv[++i]);
  }
}

absl::Status ReadModel(const std::string& word, const std::string& revision, CommandLine* line) {
  NG_ASSIGN_OR_RETURN(const HubName name, ParseHubName(word));
  if (!name.revision.empty() && !revision.empty()) {
    return UsageError(absl::StrCat("--revision ", revision, ": ", word, " names one too"));
  }
  line->repository = name.repository;
  line->tag = name.tag;
  line->revision = revision.empty() ? name.revision : revision;
  if (line->revision.empty()) line->revision = kMain;
  if (IsPathInside(line->revision)) return absl::OkStatus();
  return UsageError(
      absl::StrCat("revision \"", line->revision, "\": must be a branch, a tag or a commit"));
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  constexpr int64_t kMostConnections = 16;
  constexpr int64_t kMostTries = 100;
  const po::options_description known = OptionsOf(TheManual());
  std::vector<std::string> words;
  std::vector<std::string> options;
  Split(argc, argv, known, &words, &options);
  NG_ASSIGN_OR_RETURN(const Arguments arguments, ParseArguments(options, known));
  const po::variables_map& values = arguments.values;
  CommandLine line;
  line.about = ReadAbout(values);
  if (!arguments.overrides.empty()) {
    return UsageError(absl::StrCat("--", arguments.overrides.front(), ": ng-fetch has no config"));
  }
  line.dry_run = values.count("dry-run") != 0;
  line.ask = values.count("ask") != 0;
  if (values.count("include") != 0) line.include = values["include"].as<std::vector<std::string>>();
  NG_ASSIGN_OR_RETURN(const int64_t connections,
                      ParseWholeNumber("connections", values["connections"].as<std::string>(),
                                       {1, kMostConnections}));
  line.connections = static_cast<int>(connections);
  NG_ASSIGN_OR_RETURN(
      const int64_t tries,
      ParseWholeNumber("tries", values["tries"].as<std::string>(), {0, kMostTries}));
  line.tries = static_cast<int>(tries);
  if (line.about.asked()) return line;
  if (words.size() != 1) {
    return UsageError(absl::StrCat("one model is needed, ng-fetch ORG/NAME; given: ",
                                   words.empty() ? "none" : absl::StrJoin(words, " ")));
  }
  const std::string revision =
      values.count("revision") != 0 ? values["revision"].as<std::string>() : std::string();
  NG_RETURN_IF_ERROR(ReadModel(words.front(), revision, &line));
  if (!line.include.empty() && !line.tag.empty()) {
    return UsageError(absl::StrCat("--include: ", words.front(), " names a file"));
  }
  return line;
}

Manual TheManual() {
  OptionGroup what = {"What to fetch", {}};
  what.options.add_options()  //
      ("revision", TextValue("REVISION"),
       "a branch, a tag or a commit; also ORG/NAME@REVISION (=main)")  //
      ("include", po::value<std::vector<std::string>>()->value_name("PATTERN"),
       "the files whose paths match, in place of those that ng reads; * and ? match any "
       "characters; may be given several times")  //
      ("dry-run", "show the files and their sizes, fetch nothing");
  OptionGroup how = {"How", {}};
  how.options.add_options()                                                   //
      ("connections", TextValue("N", "4"), "files that are fetched at once")  //
      ("tries", TextValue("N", "8"),
       "tries after a failure that may pass, until one brings more")  //
      ("ask", "say the size and ask before it is fetched, on a terminal");
  return {.program = "ng-fetch",
          .summary = "fetch a model from a hub into Hugging Face's cache",
          .uses = {"ng-fetch ORG/NAME[@REVISION][:QUANT] [options]"},
          .notes = {"Fetches the files of a model that ng reads, to where other programs find "
                    "them too, and prints their folder, or the GGUF file. What was begun goes on. "
                    "Then run it by its name: ng-run ORG/NAME. HF_TOKEN is for models that not "
                    "everybody may see, HF_ENDPOINT for another hub."},
          .examples = {"ng-fetch Qwen/Qwen3-0.6B", "ng-fetch Qwen/Qwen3-0.6B-GGUF:Q8_0"},
          .groups = {what, how, AboutOptions()},
          .keys = ConfigKeys::kNone};
}

}  // namespace ng::fetch
