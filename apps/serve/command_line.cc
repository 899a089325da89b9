#include "apps/serve/command_line.h"

#include <boost/program_options.hpp>

#include "apps/common/arguments.h"

namespace ng::serve {

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  NG_ASSIGN_OR_RETURN(const Arguments arguments,
                      ParseArguments(argc, argv, OptionsOf(TheManual())));
  CommandLine line;
  line.engine = EngineOptionsOf(arguments);
  if (arguments.values.count("view") != 0) {
    line.engine.overrides.insert(line.engine.overrides.begin(), "serve.views=32");
  }
  if (arguments.values.count("quiet") != 0) {
    line.engine.overrides.insert(line.engine.overrides.begin(), "serve.log=off");
  }
  line.about = ReadAbout(arguments.values);
  line.dry_run = arguments.values.count("dry-run") != 0;
  return line;
}

Manual TheManual() {
  OptionGroup what = {"What to serve", {}};
  what.options.add_options()("config", TextValue("FILE"), "the config file")(
      "view", "the last 32 answers can be looked into: serve.views=32")(
      "dry-run", "check everything and print what would be served and the memory it takes");
  return {.program = "ng-serve",
          .summary = "serve a model to clients of OpenAI's API",
          .uses = {"ng-serve MODEL [--section.key=value ...]",
                   "ng-serve --config FILE [--section.key=value ...]"},
          .notes = {"Serves a model to clients of OpenAI's API, and a page to chat with it, at "
                    "http://127.0.0.1:8080. A signal ends it when the answers in progress have "
                    "ended, a second one at once.",
                    "The section [serve] of the config says who may ask and how much. Config keys "
                    "are those of ng-run --help all."},
          .examples = {"ng-serve model.gguf --port 8000",
                       "curl http://127.0.0.1:8000/v1/chat/completions -d '{\"model\": \"model\", "
                       "\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}'"},
          .groups = {what, AboutOptions()}};
}

}  // namespace ng::serve
