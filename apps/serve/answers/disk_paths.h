// DiskPaths: what clients see of the server's files: their names, and not where they are.
//
// Thread: const functions may be called from any thread.
#ifndef NG_APPS_SERVE_ANSWERS_DISK_PATHS_H_
#define NG_APPS_SERVE_ANSWERS_DISK_PATHS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/config.h"

namespace ng::serve {

class DiskPaths {
 public:
  DiskPaths() = default;
  // The paths that the config names, and the files that it is from.
  explicit DiskPaths(const Config& config);

  // A file or folder, and the same with its links resolved.
  void Add(const std::string& path);
  // The text with the name in place of each path: "tiny/config.json" for "/srv/m/tiny/config.json".
  std::string Hidden(std::string_view text) const;

 private:
  void AddOne(const std::string& path);

  std::vector<std::pair<std::string, std::string>> names_;  // path -> name
};

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_DISK_PATHS_H_
