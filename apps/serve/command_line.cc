#include "apps/serve/command_line.h"

#include <boost/program_options.hpp>
#include <sstream>

#include "apps/common/arguments.h"

namespace ng::serve {
namespace {

namespace po = boost::program_options;

po::options_description Options() {
  po::options_description all(kHelpWidth);
  all.add_options()  //
      ("config", po::value<std::string>()->value_name("FILE"), "the config file")(
          "help", "this text")("version", "version, instruction set level, build tag");
  return all;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  NG_ASSIGN_OR_RETURN(const Arguments arguments, ParseArguments(argc, argv, Options()));
  CommandLine line;
  line.engine = EngineOptionsOf(arguments);
  line.help = arguments.values.count("help") != 0;
  line.version = arguments.values.count("version") != 0;
  return line;
}

std::string UsageText() {
  std::ostringstream out;
  out << "usage: ng-serve --config FILE [--section.key=value ...]\n\n"
      << "Serves a model to clients of OpenAI's API, and a page to chat with it, at\n"
      << "http://127.0.0.1:8080. A signal ends it when the answers in progress have ended, a\n"
      << "second one at once.\n\n"
      << Options()
      << "\nThe section [serve] of the config says who may ask and how much. Config keys are those "
         "of\nng-run --help all.\n\n"
      << "  ng-serve --config demo.ini --serve.port=8000\n"
      << "  curl http://127.0.0.1:8000/v1/chat/completions -d '{\"model\": \"demo\",\n"
      << "    \"messages\": [{\"role\": \"user\", \"content\": \"Who art thou?\"}]}'\n";
  return out.str();
}

}  // namespace ng::serve
