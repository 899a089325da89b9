#include "apps/serve/answers/disk_paths.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_replace.h"

namespace ng::serve {

DiskPaths::DiskPaths(const Config& config) {
  for (const ConfigItem& item : config.items()) {
    const std::string& text = item.value.text;
    Add(item.origin.file);
    if (item.declared.form == ConfigForm::kPath || item.declared.form == ConfigForm::kNameOrPath) {
      Add(text);
    } else if (item.declared.form == ConfigForm::kPathList) {
      for (const std::string& path : config.Names(item.declared.key)) Add(path);
    } else if (item.declared.form == ConfigForm::kPathsWithScales ||
               item.declared.form == ConfigForm::kNamedPathsWithScales) {
      for (const std::string& item_text : config.Names(item.declared.key)) {
        const size_t name = item_text.find("=/");  // an absolute path follows a name
        const std::string path = name == std::string::npos ? item_text : item_text.substr(name + 1);
        Add(path.substr(0, path.rfind(':')));
      }
    }
  }
}

void DiskPaths::Add(const std::string& path) {
  if (path.find('/') == std::string::npos) return;  // it is a name
  AddOne(path);
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (!error) AddOne(real.string());
}

void DiskPaths::AddOne(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return;  // the root: every path begins with it
  const std::string whole = path.substr(0, end + 1);
  names_.emplace_back(whole, whole.substr(whole.rfind('/') + 1));
}

// Where one path begins with another the longer one counts.
std::string DiskPaths::Hidden(std::string_view text) const {
  return absl::StrReplaceAll({text.data(), text.size()}, names_);
}

}  // namespace ng::serve
