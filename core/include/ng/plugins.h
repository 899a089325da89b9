// The plugin host: finds plugin libraries, checks them, and hands out their descriptors. An engine
// does this by itself; a program does it to list what there is (Engine::FindPlugins).
//
// Nothing here is owned by a plugin, and a library that has been opened is never closed, so a
// descriptor stays valid for the life of the process.
//
// Thread: [load], one thread at a time.
#ifndef NG_PLUGINS_H_
#define NG_PLUGINS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/plugin.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

// A library that passed the handshake.
struct LoadedPlugin {
  const PluginDescriptor* descriptor = nullptr;  // in the library, mapped for ever
  std::string path;                              // real, absolute

  // "sampler plugin 'top_k' 1.0.0 (PATH)": how errors about it begin.
  std::string Describe() const;
};

// A candidate found by its file name ng_<kind>_<name>.so, not yet opened.
struct PluginFile {
  std::string kind;
  std::string name;
  std::string path;  // real, absolute; of a dangling link, the link's own
};

// The plugin that a file is, by its name. Errors: PluginError for a file that is not there, and for
// a name that is no plugin's.
absl::StatusOr<PluginFile> PluginFileOf(const std::string& path);

// Folders and files that every user of the machine can write to: what they hold is run.
enum class WorldWritable { kRefuse, kAllow };

class PluginHost {
 public:
  // Searches `extra_dirs` in order and then the directory that belongs to this installation,
  // ng/plugins beside libng_core.so; never the current directory. Errors: UsageError for an extra
  // directory that cannot be read; PluginError when two files provide one kind and name, and for a
  // directory that anyone can write to.
  static absl::StatusOr<PluginHost> Scan(std::span<const std::string> extra_dirs,
                                         WorldWritable writable = WorldWritable::kRefuse);

  // One more plugin, which the program has itself (EngineOptions::plugins). Errors: PluginError
  // when its descriptor does not pass the handshake, or its kind and name are there already.
  absl::Status Add(const LoadedPlugin& plugin);

  // Every candidate, sorted by kind and name.
  std::span<const PluginFile> files() const { return files_; }

  // Opens (once per process) and checks a plugin: handshake, kind and name as the file name says,
  // one factory, CPU support. Errors: PluginError naming path, value found and value expected; for
  // an unknown name, what there is and the nearest; for a file that anyone can write to.
  absl::StatusOr<LoadedPlugin> Load(std::string_view kind, std::string_view name);

 private:
  absl::Status UnknownPlugin(std::string_view kind, std::string_view name) const;

  std::vector<std::string> directories_;  // searched, real paths
  std::vector<PluginFile> files_;
  std::vector<LoadedPlugin> loaded_;
  WorldWritable writable_ = WorldWritable::kRefuse;
};

// The plugin's options as config keys, as Config::Help has them; empty where it has none.
std::string OptionHelp(const LoadedPlugin& plugin);

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_PLUGINS_H_
