// The checks of one plugin, by name: those of ng::conform for its kind, and its speed.
#ifndef NG_APPS_CONFORM_CHECKS_H_
#define NG_APPS_CONFORM_CHECKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ng/conform/attention.h"
#include "ng/conform/check.h"
#include "ng/isa.h"
#include "ng/plugin.h"
#include "ng/status.h"

namespace ng::conform {

// What is checked, and how.
struct Request {
  std::string plugin;                       // a path
  std::string kind;                         // of the plugin
  std::vector<std::string> options;         // "option=value", of the plugin
  std::vector<std::string> config;          // "section.key=value", of partners and of inner parts
  std::vector<std::string> partners;        // paths
  std::optional<PartProfile> profile = {};  // none: the one that the plugin says it has
  AttentionRule rule = {};                  // where the profile is kPlain
  uint32_t seed = 1;
  bool quick = false;
};

struct CheckName {
  std::string name;
  std::string asks;
};
// In the order in which they run. The last one, "speed", compares with a shipped part and cannot
// fail. REQUIRES: a kind of plugin.
std::vector<CheckName> ChecksOf(std::string_view kind);

// Opens the plugin and its partners as the checks do. This runs their code, like the functions
// below.
absl::Status OpenAll(const Request& request);
// Makes the part once, as the first check of its kind does. Errors: only those that say that the
// options must be others, UsageError and ModelFileError, with the options that the part asks for.
// All else is for the checks to find. REQUIRES: OpenAll is OK.
absl::Status TryToMake(const Request& request, IsaLevel isa);
// Runs one of the checks in this process. REQUIRES: OpenAll is OK, `name` is one of ChecksOf.
Outcome RunNamed(const Request& request, IsaLevel isa, std::string_view name);

}  // namespace ng::conform

#endif  // NG_APPS_CONFORM_CHECKS_H_
