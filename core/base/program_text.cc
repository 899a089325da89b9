#include "core/base/program_text.h"

#include "absl/strings/str_cat.h"
#include "ng/plugin.h"

namespace ng {

std::string ProgramText() { return absl::StrCat("ng ", NG_VERSION, " (", NG_BUILD_TAG, ")"); }

}  // namespace ng
