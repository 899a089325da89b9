// Every plugin that is found and every config key that there is: what man pages and completion
// tell.
#ifndef NG_APPS_COMMON_KNOWN_PARTS_H_
#define NG_APPS_COMMON_KNOWN_PARTS_H_

#include <span>
#include <string>
#include <vector>

#include "ng/config.h"
#include "ng/engine.h"
#include "ng/plugins.h"
#include "ng/status.h"

namespace ng {

// How a value is completed.
struct ValueWords {
  enum class Kind { kNone, kAny, kOneOf, kListOf, kFile, kFolder, kConfigKey } kind = Kind::kAny;
  std::vector<std::string> words;  // of kOneOf and kListOf, which has commas between them
};

// That of a config key; `files` are the plugins it may name.
ValueWords WordsOf(const ConfigKey& key, std::span<const PluginFile> files);

struct KnownKey {
  std::string key;
  std::string help;
  std::string default_value;
  std::string allowed;
  ValueWords values;
};

struct KnownPlugin {
  std::string kind;
  std::string name;
  std::string summary;
};

struct KnownParts {
  std::vector<KnownKey> keys;  // the engine's, then those of each plugin
  std::vector<KnownPlugin> plugins;
};

// Each plugin is opened in a process of its own. Those that cannot be used are left out; `ng-run
// --list-plugins` says why. Errors: those of Engine::ReadConfig; InterruptedError.
absl::StatusOr<KnownParts> FindKnownParts(const EngineOptions& options);

}  // namespace ng

#endif  // NG_APPS_COMMON_KNOWN_PARTS_H_
