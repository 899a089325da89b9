#include "apps/common/arguments.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ng/names.h"

namespace ng {
namespace {

namespace po = boost::program_options;

// A program_options error as one line, with the nearest option for an unknown one.
absl::Status Explain(const po::error& error, const po::options_description& options) {
  if (const auto* unknown = dynamic_cast<const po::unknown_option*>(&error)) {
    std::vector<std::string> names;
    for (const auto& option : options.options()) names.push_back(option->long_name());
    std::string name = unknown->get_option_name();
    name.erase(0, name.find_first_not_of('-'));
    name.resize(std::min(name.find('='), name.size()));
    const auto nearest = NearestName(name, names);
    return UsageError(absl::StrCat("unknown option --", name,
                                   nearest ? absl::StrCat("; did you mean --", *nearest, "?") : "",
                                   " (see --help; config keys are written --section.key=value)"));
  }
  if (const auto* syntax = dynamic_cast<const po::invalid_command_line_syntax*>(&error)) {
    if (syntax->kind() == po::invalid_command_line_syntax::empty_adjacent_parameter) {
      return UsageError(absl::StrCat(syntax->get_option_name(), "= is empty, must have a value"));
    }
  }
  return UsageError(error.what());
}

}  // namespace

absl::StatusOr<Arguments> ParseArguments(int argc, const char* const* argv,
                                         const po::options_description& options) {
  Arguments arguments;
  std::vector<std::string> own;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t name_end = std::min(argument.find('='), argument.size());
    if (argument.rfind("--", 0) == 0 && argument.find('.') < name_end) {
      if (name_end == argument.size()) {
        return UsageError(
            absl::StrCat(argument, ": a config key is given as ", argument, "=VALUE"));
      }
      arguments.overrides.push_back(argument.substr(2));
    } else {
      own.push_back(argument);
    }
  }
  try {
    using po::command_line_style::allow_long;
    using po::command_line_style::long_allow_adjacent;
    using po::command_line_style::long_allow_next;
    // There are no positional options, so every argument without an option is an error.
    const po::positional_options_description none;
    po::store(po::command_line_parser(own)
                  .options(options)
                  .positional(none)
                  .style(allow_long | long_allow_adjacent | long_allow_next)
                  .run(),
              arguments.values);
  } catch (const po::too_many_positional_options_error&) {
    return UsageError("an argument does not belong to any option; options begin with --");
  } catch (const po::error& error) {
    return Explain(error, options);
  }
  return arguments;
}

EngineOptions EngineOptionsOf(const Arguments& arguments) {
  const po::variables_map& values = arguments.values;
  EngineOptions options;
  if (values.count("config") != 0) options.config_file = values["config"].as<std::string>();
  if (values.count("random-weights") != 0) {
    options.random_weights = values["random-weights"].as<std::string>();
    // They take the place of the config file's model. A model on the command line too is refused.
    options.overrides = {"model.path=", "tokenizer.path="};
  }
  options.overrides.insert(options.overrides.end(), arguments.overrides.begin(),
                           arguments.overrides.end());
  return options;
}

absl::StatusOr<bool> WantsJsonl(const Arguments& arguments) {
  const std::string& output = arguments.values["output"].as<std::string>();
  if (output == "jsonl") return true;
  if (output == "text") return false;
  return UsageError("--output=" + output + ": must be text or jsonl");
}

absl::StatusOr<int64_t> ParseWholeNumber(std::string_view option, std::string_view text,
                                         WholeRange range) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < range.min ||
      value > range.max) {
    return UsageError(absl::StrCat("--", std::string(option), ": '", std::string(text),
                                   "' must be a whole number in [", range.min, ", ", range.max,
                                   "]"));
  }
  return value;
}

absl::StatusOr<std::vector<int64_t>> ParseWholeNumbers(const Arguments& arguments,
                                                       const char* option, WholeRange range) {
  std::vector<int64_t> numbers;
  const po::variables_map& values = arguments.values;
  if (values.count(option) == 0) return numbers;
  for (const absl::string_view part : absl::StrSplit(values[option].as<std::string>(), ',')) {
    NG_ASSIGN_OR_RETURN(const int64_t number,
                        ParseWholeNumber(option, {part.data(), part.size()}, range));
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace ng
