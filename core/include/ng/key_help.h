// What a user is told of a config key beside its name and its help line: for programs that describe
// keys in a form of their own, such as man pages. Config::Help has the text of --help.
//
// Thread: a pure function.
#ifndef NG_KEY_HELP_H_
#define NG_KEY_HELP_H_

#include <string>

#include "ng/config.h"

#pragma GCC visibility push(default)
namespace ng {

struct KeyHelp {
  std::string default_value;  // as an INI file has it; empty where it is
  std::string allowed;        // "an integer in [0, 1024]", "one of auto, f32, bf16"
};

KeyHelp HelpOf(const ConfigKey& key);

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_KEY_HELP_H_
