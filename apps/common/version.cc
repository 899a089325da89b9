#include "apps/common/version.h"

#include "absl/strings/str_cat.h"
#include "ng/isa.h"
#include "ng/plugin.h"

namespace ng {

const char* VersionNumber() { return NG_VERSION; }

std::string VersionText(std::string_view program) {
  std::string levels;
  for (const IsaLevel level : SupportedIsaLevels()) {
    if (!levels.empty()) levels += " ";
    levels += IsaName(level);
  }
  const absl::StatusOr<IsaLevel> chosen = ChooseIsa("auto");
  const std::string isa = chosen.ok() ? std::string(IsaName(*chosen))
                                      : absl::StrCat("none: ", chosen.status().message());
  const std::string arithmetic = chosen.ok() ? ArithmeticOf(*chosen).ToString() : "none";
  return absl::StrCat(std::string(program), " ", NG_VERSION, "\nisa ", isa, " (this CPU: ", levels,
                      ")\narithmetic ", arithmetic, "\nbuild ", NG_BUILD_TAG, "\n");
}

}  // namespace ng
