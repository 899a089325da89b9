#include "apps/conform/command_line.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/common/arguments.h"
#include "ng/plugins.h"

namespace ng::conform {
namespace {

namespace po = boost::program_options;

std::vector<std::string> ListOf(const po::variables_map& values, const char* option) {
  if (values.count(option) == 0) return {};
  return values[option].as<std::vector<std::string>>();
}

absl::StatusOr<std::vector<IsaLevel>> LevelsOf(const std::string& name) {
  const std::span<const IsaLevel> all = SupportedIsaLevels();
  if (name == "all") return std::vector<IsaLevel>(all.begin(), all.end());
  NG_ASSIGN_OR_RETURN(const IsaLevel level, ChooseIsa(name));
  return std::vector<IsaLevel>{level};
}

// The profile of a name, for a plugin of this kind.
absl::StatusOr<PartProfile> ProfileNamed(const std::string& name, const std::string& kind) {
  for (const PartProfileName& known : kPartProfiles) {
    if (known.name != name) continue;
    if (known.kind == nullptr || known.kind == kind) return known.profile;
    return UsageError(absl::StrCat("--profile=", name, ": is for plugins of kind ", known.kind,
                                   ", and this one is of kind ", kind));
  }
  return UsageError(absl::StrCat(
      "--profile=", name, ": must be auto, ",
      absl::StrJoin(kPartProfiles, ", ", [](std::string* out, const PartProfileName& known) {
        out->append(known.name);
      })));
}

// --profile and --rule.
absl::Status ReadProfile(const po::variables_map& values, CommandLine* line) {
  Request* const request = &line->request;
  const std::string& profile = values["profile"].as<std::string>();
  if (profile != "auto") {
    line->profile.push_back("--profile=" + profile);
    NG_ASSIGN_OR_RETURN(request->profile, ProfileNamed(profile, request->kind));
  }
  if (values.count("rule") == 0) return absl::OkStatus();
  if (request->kind != "attention" ||
      request->profile.value_or(PartProfile::kPlain) != PartProfile::kPlain) {
    return UsageError("--rule is for a plugin of kind attention whose profile is plain");
  }
  const std::string& rule = values["rule"].as<std::string>();
  line->profile.push_back("--rule=" + rule);
  request->profile = PartProfile::kPlain;
  NG_ASSIGN_OR_RETURN(request->rule, AttentionRule::Parse(rule));
  return absl::OkStatus();
}

absl::Status ReadCases(const po::variables_map& values, CommandLine* line) {
  if (values.count("case") == 0) return absl::OkStatus();
  const std::vector<CheckName> known = ChecksOf(line->request.kind);
  for (const absl::string_view part : absl::StrSplit(values["case"].as<std::string>(), ',')) {
    const std::string name(part);
    if (std::ranges::count(known, name, &CheckName::name) == 0) {
      return UsageError(
          absl::StrCat("--case: '", name, "' must be one of ",
                       absl::StrJoin(known, ", ", [](std::string* out, const CheckName& check) {
                         out->append(check.name);
                       })));
    }
    line->cases.push_back(name);
  }
  return absl::OkStatus();
}

absl::Status ReadRequest(const Arguments& arguments, CommandLine* line) {
  const po::variables_map& values = arguments.values;
  Request& request = line->request;
  if (values.count("plugin") == 0) return UsageError("no plugin is named; see --help");
  request.plugin = values["plugin"].as<std::string>();
  NG_ASSIGN_OR_RETURN(const PluginFile name, PluginFileOf(request.plugin));
  request.kind = name.kind;
  request.options = ListOf(values, "option");
  for (const std::string& option : request.options) {
    if (option.find('=') == std::string::npos) {
      return UsageError(absl::StrCat("--option ", option, ": must be KEY=VALUE"));
    }
  }
  request.partners = ListOf(values, "with");
  request.config = arguments.overrides;
  request.quick = values.count("quick") != 0;
  NG_ASSIGN_OR_RETURN(const int64_t seed,
                      ParseWholeNumber("seed", values["seed"].as<std::string>(), {0, 100000}));
  request.seed = static_cast<uint32_t>(seed);
  NG_ASSIGN_OR_RETURN(
      const int64_t deadline,
      ParseWholeNumber("deadline", values["deadline"].as<std::string>(), {1, 3600}));
  line->deadline = std::chrono::seconds(deadline);
  NG_ASSIGN_OR_RETURN(line->levels, LevelsOf(values["isa"].as<std::string>()));
  NG_RETURN_IF_ERROR(ReadProfile(values, line));
  return ReadCases(values, line);
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  // The plugin may be the first argument.
  std::vector<const char*> named(argv, argv + argc);
  if (argc > 1 && argv[1][0] != '-') named.insert(named.begin() + 1, "--plugin");
  NG_ASSIGN_OR_RETURN(
      const Arguments arguments,
      ParseArguments(static_cast<int>(named.size()), named.data(), OptionsOf(TheManual())));
  CommandLine line;
  line.about = ReadAbout(arguments.values);
  line.list = arguments.values.count("list") != 0;
  NG_ASSIGN_OR_RETURN(line.jsonl, WantsJsonl(arguments));
  if (!line.about.asked()) NG_RETURN_IF_ERROR(ReadRequest(arguments, &line));
  return line;
}

Manual TheManual() {
  const auto several = [](const char* name) {
    return po::value<std::vector<std::string>>()->value_name(name)->composing();
  };
  OptionGroup what = {"What to check", {}};
  what.options.add_options()                                                        //
      ("plugin", TextValue("FILE"), "the plugin, also without this option's name")  //
      ("option", several("KEY=VALUE"), "an option of the plugin; may be repeated")  //
      ("with", several("FILE"),
       "a partner: a cache that the backend runs over, or a backend that reads the cache")  //
      ("profile", TextValue("auto|plain|masked|constraint|approximate", "auto"),
       "auto: what the plugin says of itself; masked: the backend has a rule of its own and is "
       "held "
       "against itself only; constraint: the stage's state follows the answer, as of a grammar; "
       "approximate: the store is one, and fails if its plan does not say so")  //
      ("rule", TextValue("RULE"),
       "the backend's own rule, which it is held against: alibi, or window=N, first=N, top_k=N, "
       "soft_cap=X, separated by commas");
  OptionGroup how = {"How", {}};
  how.options.add_options()  //
      ("isa", TextValue("LEVEL", "auto"),
       "auto: the fastest level of this CPU, or NG_ISA; a level's name; all")  //
      ("quick", "fewer shapes and shorter scripts")                            //
      ("case", TextValue("CHECK,..."),
       "only these checks, separated by commas; what they print is shown")          //
      ("seed", TextValue("N", "1"), "of all that is random")                        //
      ("deadline", TextValue("SECONDS", "60"), "the time that one check may take")  //
      ("list", "list the checks of the plugin's kind, and run none");
  OptionGroup output = {"Output", {}};
  output.options.add_options()("output", TextValue("text|jsonl", "text"),
                               "text, or jsonl: one object a line for each check");
  return {
      .program = "ng-conform",
      .summary = "check whether a plugin does what ng asks of its kind",
      .uses = {"ng-conform PLUGIN.so [what] [how] [output] [--section.key=value ...]"},
      .notes = {"Checks whether a plugin does what ng asks of its kind, each check in a process "
                "of its own. Prints a line for each check. Exit code 0: all passed; 1: one "
                "failed; 2: wrong usage, or options that the plugin "
                "cannot be made with; 3: a file that one names is wrong; 4: the plugin cannot be "
                "loaded. --section.key=value "
                "sets options of partners and of plugins that the plugin creates, and "
                "plugins.path."},
      .examples = {"ng-conform ng_sampler_mine.so --isa all"},
      .groups = {what, how, output, AboutOptions()}};
}

std::string CommandFor(const CommandLine& line, IsaLevel isa, const std::string& check) {
  const Request& request = line.request;
  std::string text = absl::StrCat("ng-conform ", ShellWord(request.plugin));
  const auto add = [&text](const char* option, const std::string& value) {
    absl::StrAppend(&text, " --", option, " ", ShellWord(value));
  };
  for (const std::string& option : request.options) add("option", option);
  for (const std::string& path : request.partners) add("with", path);
  for (const std::string& entry : request.config) absl::StrAppend(&text, " --", ShellWord(entry));
  for (const std::string& option : line.profile) absl::StrAppend(&text, " ", ShellWord(option));
  if (request.quick) absl::StrAppend(&text, " --quick");
  add("isa", std::string(IsaName(isa)));
  if (check != kLoad) add("case", check);  // it comes before all others
  add("seed", std::to_string(request.seed));
  return text;
}

}  // namespace ng::conform
