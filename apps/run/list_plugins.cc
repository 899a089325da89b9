#include "apps/run/list_plugins.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/common/terminal.h"
#include "core/config/config.h"
#include "core/config/help.h"
#include "core/plugin/loader.h"
#include "core/runtime/assembly.h"

namespace ng::run {

absl::Status ListPlugins(const EngineOptions& options) {
  NG_ASSIGN_OR_RETURN(PluginHost host, ScanPlugins(options));
  std::string text;
  for (const PluginFile& file : host.files()) {
    const absl::StatusOr<LoadedPlugin> plugin = host.Load(file.kind, file.name);
    if (!plugin.ok()) {
      absl::StrAppend(&text, file.kind, " ", file.name, "  unusable: ", plugin.status().message(),
                      "\n");
      continue;
    }
    const PluginDescriptor& descriptor = *plugin->descriptor;
    absl::StrAppend(&text, file.kind, " ", file.name, " ", descriptor.version, "  ",
                    descriptor.summary, "\n    ", plugin->path, "\n");
    const std::vector<ConfigKey> keys = OptionKeys(*plugin);
    if (!keys.empty()) absl::StrAppend(&text, FormatOptionHelp(keys));
  }
  return WriteStdout(text);
}

}  // namespace ng::run
