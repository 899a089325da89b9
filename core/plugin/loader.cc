#include "core/plugin/loader.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/absl_view.h"
#include "core/base/file.h"
#include "core/plugin/handshake.h"
#include "core/plugin/library.h"
#include "ng/names.h"

namespace ng {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> kKinds = {"attention", "cache", "drafter", "fabric",
                                                    "policy",    "probe", "sampler"};

// Splits ng_<kind>_<name>.so; any other file name is none of ours.
std::optional<PluginFile> ParseFileName(std::string_view file_name) {
  constexpr std::string_view kPrefix = "ng_";
  constexpr std::string_view kSuffix = ".so";
  if (!file_name.starts_with(kPrefix) || !file_name.ends_with(kSuffix)) return std::nullopt;
  file_name.remove_prefix(kPrefix.size());
  file_name.remove_suffix(kSuffix.size());
  for (const std::string_view kind : kKinds) {
    if (!file_name.starts_with(kind)) continue;
    std::string_view name = file_name.substr(kind.size());
    if (name.size() < 2 || name.front() != '_') continue;
    return PluginFile{std::string(kind), std::string(name.substr(1)), ""};
  }
  return std::nullopt;
}

// Memory that runs out is no fault of a plugin, nor of who names its folder.
absl::Status Unread(std::error_code error, const absl::Status& otherwise) {
  if (error != std::errc::not_enough_memory) return otherwise;
  return LimitError(std::string(otherwise.message()));
}

// Adds the candidates in `directory`, which is a real path.
void ListPlugins(const fs::path& directory, std::error_code* error,
                 std::vector<PluginFile>* files) {
  std::vector<std::string> names;
  *error = ListDirectory(directory.string(), &names);
  for (const std::string& name : names) {
    std::optional<PluginFile> file = ParseFileName(name);
    if (!file) continue;
    // A dangling link stays a candidate, so that asking for it says what is wrong.
    const fs::path path = directory / name;
    std::error_code dangling;
    const fs::path real = fs::canonical(path, dangling);
    file->path = dangling ? path.string() : real.string();
    files->push_back(*std::move(file));
  }
}

// The sticky bit does not help: whoever can add a file can add a plugin.
absl::Status CheckWritable(const std::string& path, const char* what, WorldWritable writable) {
  struct stat info = {};
  // What is neither a file nor a folder is never opened as a library.
  const bool allowed = writable == WorldWritable::kAllow;
  if (allowed || stat(path.c_str(), &info) != 0 ||
      (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) || (info.st_mode & S_IWOTH) == 0) {
    return absl::OkStatus();
  }
  return PluginError(absl::StrFormat(
      "plugin %s %s: anyone can write to it (mode %04o) and so have code run; chmod o-w, or set "
      "plugins.allow_world_writable = true",
      what, path, info.st_mode & 07777));
}

// Sorts the candidates and merges those that are one file reached twice.
// Errors: PluginError when two files provide one kind and name.
absl::Status SortFiles(std::vector<PluginFile>* files) {
  std::sort(files->begin(), files->end(), [](const PluginFile& a, const PluginFile& b) {
    return std::tie(a.kind, a.name, a.path) < std::tie(b.kind, b.name, b.path);
  });
  const auto same_file = [](const PluginFile& a, const PluginFile& b) {
    return a.kind == b.kind && a.name == b.name && a.path == b.path;
  };
  files->erase(std::unique(files->begin(), files->end(), same_file), files->end());
  const auto clash = std::adjacent_find(files->begin(), files->end(),
                                        [](const PluginFile& a, const PluginFile& b) {
                                          return a.kind == b.kind && a.name == b.name;
                                        });
  if (clash == files->end()) return absl::OkStatus();
  return PluginError(absl::StrCat("two plugins provide ", clash->kind, " '", clash->name,
                                  "': ", clash->path, " and ", std::next(clash)->path));
}

}  // namespace

absl::StatusOr<PluginFile> PluginFileOf(const std::string& path) {
  std::optional<PluginFile> file = ParseFileName(fs::path(path).filename().string());
  if (!file) {
    return PluginError(path +
                       ": a plugin is named ng_<kind>_<name>.so, with the kind attention, cache, "
                       "probe or sampler");
  }
  std::error_code error;
  file->path = fs::canonical(path, error).string();
  if (error) return Unread(error, PluginError(absl::StrCat(path, ": ", error.message())));
  return *std::move(file);
}

absl::StatusOr<PluginHost> PluginHost::Scan(std::span<const std::string> extra_dirs,
                                            WorldWritable writable) {
  PluginHost host;
  host.writable_ = writable;
  for (const std::string& dir : extra_dirs) {
    std::error_code error;
    const fs::path real = fs::canonical(dir, error);
    if (!error) ListPlugins(real, &error, &host.files_);
    if (error) {
      return Unread(error, UsageError(absl::StrCat("plugins.path: cannot read directory '", dir,
                                                   "': ", error.message(), HomeHint(dir))));
    }
    host.directories_.push_back(real.string());
  }
  NG_ASSIGN_OR_RETURN(std::string own, OwnPluginDirectory());
  std::error_code error;
  ListPlugins(own, &error, &host.files_);
  // An embedding program may bring all its plugins itself.
  if (error && error != std::errc::no_such_file_or_directory) {
    return Unread(error, PluginError(absl::StrCat("cannot read plugin directory '", own,
                                                  "': ", error.message())));
  }
  host.directories_.push_back(std::move(own));
  for (const std::string& directory : host.directories_) {
    NG_RETURN_IF_ERROR(CheckWritable(directory, "folder", writable));
  }
  NG_RETURN_IF_ERROR(SortFiles(&host.files_));
  return host;
}

absl::Status PluginHost::Add(const LoadedPlugin& plugin) {
  const PluginDescriptor& descriptor = *plugin.descriptor;
  // By itself it has no file name that would say what it is.
  const bool named = descriptor.kind != nullptr && descriptor.name != nullptr;
  const std::string_view kind = named ? descriptor.kind : "";
  const std::string_view name = named ? descriptor.name : "";
  NG_RETURN_IF_ERROR(Annotate(CheckDescriptor(descriptor, kind, name),
                              absl::StrCat("plugin of ", plugin.path, ": ")));
  if (std::ranges::count(kKinds, kind) == 0) {
    const std::vector<std::string> kinds(kKinds.begin(), kKinds.end());
    return PluginError(absl::StrCat("plugin of ", plugin.path, ": is of kind '", View(kind),
                                    "', must be one of ", absl::StrJoin(kinds, ", ")));
  }
  for (const PluginFile& file : files_) {
    if (file.kind != kind || file.name != name) continue;
    return PluginError(absl::StrCat("two plugins provide ", file.kind, " '", file.name,
                                    "': ", file.path, " and ", plugin.path));
  }
  files_.push_back({std::string(kind), std::string(name), plugin.path});
  NG_RETURN_IF_ERROR(SortFiles(&files_));
  loaded_.push_back(plugin);
  return absl::OkStatus();
}

absl::Status PluginHost::UnknownPlugin(std::string_view kind, std::string_view name) const {
  std::vector<std::string> known;
  for (const PluginFile& file : files_) {
    if (file.kind == kind) known.push_back(file.name);
  }
  std::string message = absl::StrCat("no ", View(kind), " plugin '", View(name), "'");
  if (const std::optional<std::string> nearest = NearestName(name, known)) {
    absl::StrAppend(&message, "; did you mean '", *nearest, "'?");
  }
  absl::StrAppend(&message,
                  known.empty() ? "; there is none" : "; there are: ", absl::StrJoin(known, ", "),
                  "; searched: ", absl::StrJoin(directories_, ", "));
  return PluginError(message);
}

absl::StatusOr<LoadedPlugin> PluginHost::Load(std::string_view kind, std::string_view name) {
  for (const LoadedPlugin& plugin : loaded_) {
    if (plugin.descriptor->kind == kind && plugin.descriptor->name == name) return plugin;
  }
  const auto file = std::find_if(files_.begin(), files_.end(), [&](const PluginFile& candidate) {
    return candidate.kind == kind && candidate.name == name;
  });
  if (file == files_.end()) return UnknownPlugin(kind, name);
  // The folder that a link leads to counts too: its files can be replaced.
  NG_RETURN_IF_ERROR(
      CheckWritable(fs::path(file->path).parent_path().string(), "folder", writable_));
  NG_RETURN_IF_ERROR(CheckWritable(file->path, "file", writable_));
  NG_ASSIGN_OR_RETURN(const LoadedPlugin plugin, OpenPlugin(*file));
  return loaded_.emplace_back(plugin);
}

absl::StatusOr<LoadedPlugin> OpenPlugin(const PluginFile& file) {
  NG_ASSIGN_OR_RETURN(const PluginDescriptor* descriptor, OpenPluginLibrary(file.path));
  NG_RETURN_IF_ERROR(Annotate(CheckDescriptor(*descriptor, file.kind, file.name),
                              absl::StrCat("plugin ", file.path, ": ")));
  return LoadedPlugin{descriptor, file.path};
}

}  // namespace ng
