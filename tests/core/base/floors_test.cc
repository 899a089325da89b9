// The rooms of core stand on each other: a file includes its own room and the rooms below it, which
// the table in core/README.md lists from the ground up. Plugins and programs stand on the SDK.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/temp_dir.h"

namespace ng {
namespace {

namespace fs = std::filesystem;
using test::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Lines(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The rooms from the ground up: the first column of the table below "## The rooms".
std::vector<std::string> RoomsOf(const fs::path& readme) {
  static const std::regex kRow("\\| `([a-z/]+)` \\|.*");
  std::vector<std::string> rooms;
  bool there = false;
  for (const std::string& line : Lines(readme)) {
    std::smatch row;
    if (line == "## The rooms") there = true;
    if (there && line.starts_with("### ")) break;
    if (there && std::regex_match(line, row, kRow)) rooms.push_back(row[1]);
  }
  return rooms;
}

class Floors {
 public:
  explicit Floors(const fs::path& root)
      : root_(root), rooms_(RoomsOf(root / "core" / "README.md")) {}

  const std::vector<std::string>& rooms() const { return rooms_; }

  // "core/base/file.h includes core/runtime/engine.h", for each include that runs up.
  std::vector<std::string> Upward() const {
    static const std::regex kInclude("#include \"((core|ng|plugins|apps|tests)/[^\"]+)\".*");
    std::vector<std::string> upward;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root_ / "core")) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc") continue;
      const std::string file = fs::relative(entry.path(), root_).string();
      for (const std::string& line : Lines(entry.path())) {
        std::smatch include;
        if (!std::regex_match(line, include, kInclude)) continue;
        if (FloorOf(file) >= FloorOf(include[1])) continue;
        upward.push_back(absl::StrCat(file, " includes ", include[1].str()));
      }
    }
    return upward;
  }

  // The room's place in the table: the longest name that the file's folder begins with. Files of no
  // room are above all of them.
  size_t FloorOf(const std::string& file) const {
    const std::string path = file.starts_with("ng/") ? absl::StrCat("core/include/", file) : file;
    // The doors of the engine belong to the room behind them.
    for (const char* const door : {"engine.h", "generation.h", "session.h"}) {
      if (path == absl::StrCat("core/include/ng/", door)) return rooms_.size() - 1;
    }
    size_t floor = rooms_.size();
    size_t longest = 0;
    for (size_t i = 0; i < rooms_.size(); ++i) {
      if (rooms_[i].size() <= longest) continue;
      if (!path.starts_with(absl::StrCat("core/", rooms_[i], "/"))) continue;
      floor = i;
      longest = rooms_[i].size();
    }
    return floor;
  }

 private:
  fs::path root_;
  std::vector<std::string> rooms_;
};

TEST(Floors, TheTableHasEveryRoom) {
  const Floors floors(NG_SOURCE_DIR);
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(fs::path(NG_SOURCE_DIR) / "core")) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cc") continue;
    const std::string file = fs::relative(entry.path(), NG_SOURCE_DIR).string();
    EXPECT_LT(floors.FloorOf(file), floors.rooms().size()) << file << " is in no room of the table";
  }
}

TEST(Floors, NoIncludeRunsUp) { EXPECT_THAT(Floors(NG_SOURCE_DIR).Upward(), IsEmpty()); }

TEST(Floors, AnIncludeThatRunsUpIsFound) {
  const TempDir dir;
  const fs::path root = dir.path();
  fs::create_directories(root / "core" / "base");
  fs::copy_file(fs::path(NG_SOURCE_DIR) / "core" / "README.md", root / "core" / "README.md");
  std::ofstream(root / "core" / "base" / "planted.h")
      << "#include \"core/base/hash.h\"\n#include \"ng/status.h\"\n"
         "#include \"core/runtime/assembly.h\"\n#include \"ng/engine.h\"\n";
  EXPECT_THAT(Floors(root).Upward(),
              ElementsAre(HasSubstr("planted.h includes core/runtime/assembly.h"),
                          HasSubstr("planted.h includes ng/engine.h")));
}

TEST(Floors, PluginsIncludeTheSdkAlone) {
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(fs::path(NG_SOURCE_DIR) / "plugins")) {
    if (!entry.is_regular_file()) continue;
    for (const std::string& line : Lines(entry.path())) {
      EXPECT_FALSE(line.starts_with("#include \"core/")) << entry.path() << ": " << line;
    }
  }
}

// So a program that embeds ng can do all that these do. Python's `diff` is ng-diff without its
// command line.
TEST(Floors, ProgramsIncludeTheSdkAndWhatTheyShare) {
  static const std::regex kInclude("#include \"((core|ng|plugins|apps|tests)/[^\"]+)\".*");
  const fs::path apps = fs::path(NG_SOURCE_DIR) / "apps";
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(apps)) {
    if (!entry.is_regular_file()) continue;
    // apps/run/ for apps/run/chat/session.cc too.
    const std::string own = "apps/" + fs::relative(entry.path(), apps).begin()->string() + "/";
    for (const std::string& line : Lines(entry.path())) {
      std::smatch include;
      if (!std::regex_match(line, include, kInclude)) continue;
      const std::string file = include[1];
      EXPECT_TRUE(file.starts_with("ng/") || file.starts_with("apps/common/") ||
                  file.starts_with("apps/view/") || file.starts_with(own) ||
                  (own == "apps/python/" && file.starts_with("apps/diff/")))
          << entry.path() << ": " << line;
    }
  }
}

}  // namespace
}  // namespace ng
