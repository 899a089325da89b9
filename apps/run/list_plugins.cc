#include "apps/run/list_plugins.h"

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/common/apart.h"
#include "apps/common/terminal.h"
#include "ng/plugins.h"

namespace ng::run {
namespace {

std::string Unusable(const PluginFile& file, std::string_view why) {
  return absl::StrCat(file.kind, " ", file.name, "  unusable: ", OneLine(why), "\n");
}

std::string Opening(const PluginFile& file, std::string_view what) {
  return Unusable(file, absl::StrCat("plugin ", file.path, ": opening it ", OneLine(what)));
}

// What the list says about a plugin. This runs the plugin's code.
std::string Entry(PluginHost& host, const PluginFile& file) {
  const absl::StatusOr<LoadedPlugin> plugin = host.Load(file.kind, file.name);
  if (!plugin.ok()) return Unusable(file, std::string(plugin.status().message()));
  const PluginDescriptor& descriptor = *plugin->descriptor;
  const std::string text = absl::StrCat(file.kind, " ", file.name, " ", descriptor.version, "  ",
                                        descriptor.summary, "\n    ", plugin->path, "\n");
  return text + OptionHelp(*plugin);
}

// The entry of a plugin that is opened in a process of its own. The list must not end, wait or
// change because of what a plugin does when it is opened.
absl::StatusOr<std::string> EntryApart(PluginHost& host, const PluginFile& file,
                                       const std::atomic<bool>& stop) {
  NG_ASSIGN_OR_RETURN(const ApartResult result,
                      RunApart([&] { return Entry(host, file); }, {}, stop));
  return result.returned ? result.text : Opening(file, result.text);
}

}  // namespace

absl::Status ListPlugins(const EngineOptions& options) {
  NG_ASSIGN_OR_RETURN(PluginHost host, Engine::FindPlugins(options));
  std::string text;
  for (const PluginFile& file : host.files()) {
    NG_ASSIGN_OR_RETURN(const std::string entry, EntryApart(host, file, *options.stop));
    text += entry;
  }
  return WriteStdout(text);
}

}  // namespace ng::run
