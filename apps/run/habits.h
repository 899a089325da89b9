// The short ways to call ng-run, in terms of the long ones: ng-run MODEL [TEXT ...], -n 20, and the
// one screen of help that shows them.
#ifndef NG_APPS_RUN_HABITS_H_
#define NG_APPS_RUN_HABITS_H_

#include <boost/program_options/options_description.hpp>
#include <string>
#include <vector>

#include "apps/common/manual.h"
#include "ng/status.h"

namespace ng::run {

struct SpelledOut {
  std::vector<std::string> arguments;  // long options with their values, in order
  std::vector<std::string> texts;      // what stands there without an option, but for MODEL
  bool help_all = false;               // --help all
};

// The first argument without an option is the model, unless --config, --model.path, another
// program's name for it or -m says which one it is; the others are texts. All behind "--" are
// without an option. `options`: the program's. Errors: UsageError for a short option that there is
// not.
absl::StatusOr<SpelledOut> SpellOut(int argc, const char* const* argv,
                                    const boost::program_options::options_description& options);

// How it is called, with examples: for who calls it with nothing.
std::string ShortUsage(int width);
// Examples and the options that are used most, in lines of at most `width` columns.
std::string ShortHelp(int width);

// For the man page and completion.
std::vector<std::string> Examples();
std::vector<ShortForm> ShortForms();

}  // namespace ng::run

#endif  // NG_APPS_RUN_HABITS_H_
