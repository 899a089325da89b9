// The command line of a card of tasks.
#ifndef NG_APPS_EVAL_LAB_OPTIONS_H_
#define NG_APPS_EVAL_LAB_OPTIONS_H_

#include <string>
#include <vector>

#include "apps/common/arguments.h"
#include "apps/common/manual.h"
#include "apps/eval/command_line.h"
#include "ng/status.h"

namespace ng::eval {

// The arguments with "--card=METHODS", and "--card METHODS" where that is meant, as "--card" and
// "--methods=METHODS". A word behind --card is meant where it has a comma and is no path, or where
// another option of such a card is given; else it is a model, as behind every option without a
// value.
std::vector<std::string> WithMethods(const std::vector<std::string>& arguments);

OptionGroup LabGroup();

// Errors: UsageError naming the option.
absl::StatusOr<LabOptions> ReadLab(const Arguments& arguments);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_LAB_OPTIONS_H_
