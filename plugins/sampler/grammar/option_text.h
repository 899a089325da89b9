// A file that an option names.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_OPTION_TEXT_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_OPTION_TEXT_H_

#include <string>
#include <string_view>

#include "ng/status.h"

namespace ng::grammar {

// Errors: UsageError when it is no regular file, cannot be read, or has more than 4 MiB.
absl::StatusOr<std::string> ReadOptionFile(std::string_view path);

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_OPTION_TEXT_H_
