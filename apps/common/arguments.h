// The part of a command line that all programs share: dotted config overrides beside the program's
// own options, and one way to explain what is wrong.
#ifndef NG_APPS_COMMON_ARGUMENTS_H_
#define NG_APPS_COMMON_ARGUMENTS_H_

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ng/engine.h"
#include "ng/status.h"

namespace ng {

struct Arguments {
  std::vector<std::string> overrides;  // "section.key=value" or "temp=value", in order
  boost::program_options::variables_map values;
  std::vector<std::string> texts;  // what stands there without an option, but for the model
};

// `--section.key=value` is an override, and so is another program's name for a key, which may have
// its value behind it: `--temp 0.2`, `-np 4` (ng/spellings.h). Everything else must be one of
// `options`, in its long form, or another program's name for one, which comes first. Behind `--` is
// no option. Where --config is one of them, an argument
// without an option is the model: `model.path=MODEL`. Errors: UsageError naming the argument, what
// is allowed and the nearest option.
absl::StatusOr<Arguments> ParseArguments(
    int argc, const char* const* argv, const boost::program_options::options_description& options);
absl::StatusOr<Arguments> ParseArguments(
    const std::vector<std::string>& arguments,
    const boost::program_options::options_description& options);

// Whether --`name` is another program's name for a config key, or for one of these options.
bool IsSpelling(std::string_view name, const boost::program_options::options_description& options);
// Whether a value follows --`name`, if it is one of these options or such a name.
bool TakesValue(std::string_view name, const boost::program_options::options_description& options);

// A word of a command line as a shell reads it: quoted where it must be.
std::string ShellWord(std::string_view word);
// A text between single quotes of a shell.
std::string ShellQuoted(std::string_view text);

// What --config, --random-weights and the overrides ask for. A file that ends in .ini is a config
// where a model is named too, and a model's folder or file is one where a config is named.
EngineOptions EngineOptionsOf(const Arguments& arguments);

// Whether --output is jsonl. Errors: UsageError when it is not text either.
absl::StatusOr<bool> WantsJsonl(const Arguments& arguments);

// Whether it is "SECTION.KEY=VALUE", or has another program's name for the key.
bool IsSetting(std::string_view setting);

// The values of --`option`, which may be given several times: "SECTION.KEY=VALUE" each, with keys
// that differ; another program's name may stand for the key. Errors: UsageError.
absl::StatusOr<std::vector<std::string>> ParseSettings(const Arguments& arguments,
                                                       const char* option);

// The value of --`option`, which must be a whole number in a range. Errors: UsageError.
struct WholeRange {
  int64_t min;
  int64_t max;
};
absl::StatusOr<int64_t> ParseWholeNumber(std::string_view option, std::string_view text,
                                         WholeRange range);
// Several numbers, separated by commas; none where the option is not given.
absl::StatusOr<std::vector<int64_t>> ParseWholeNumbers(const Arguments& arguments,
                                                       const char* option, WholeRange range);

}  // namespace ng

#endif  // NG_APPS_COMMON_ARGUMENTS_H_
