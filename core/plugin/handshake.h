// The handshake: what a plugin's descriptor must say before anything of it is used. [load]
#ifndef NG_CORE_PLUGIN_HANDSHAKE_H_
#define NG_CORE_PLUGIN_HANDSHAKE_H_

#include <string_view>

#include "ng/plugin.h"
#include "ng/status.h"

namespace ng {

// Checks, in this order: magic, ABI version, struct size (a larger struct is a newer plugin's and
// fine), build tag; then kind and name against those of the file name, texts, factories, options;
// and last asks the plugin whether this CPU can run it. Behind the header nothing is read, and
// nothing of the plugin is called, before the header has passed.
// Errors: PluginError with the value found and the value expected, not naming the path.
absl::Status CheckDescriptor(const PluginDescriptor& plugin, std::string_view kind,
                             std::string_view name);

}  // namespace ng

#endif  // NG_CORE_PLUGIN_HANDSHAKE_H_
