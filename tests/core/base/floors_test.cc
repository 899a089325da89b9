// The rooms of core stand on each other: a file includes its own room and the rooms below it, which
// the table in core/README.md lists from the ground up. A room that stands apart includes the SDK
// and itself, and no other room includes it. Plugins and programs stand on the SDK.

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
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<std::string> Lines(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Room {
  std::string name;
  bool apart = false;
};

// The rooms from the ground up: the first column of the table below "## The rooms".
std::vector<Room> RoomsOf(const fs::path& readme) {
  static const std::regex kRow("\\| `([a-z/]+)`(, apart)? \\|.*");
  std::vector<Room> rooms;
  bool there = false;
  for (const std::string& line : Lines(readme)) {
    std::smatch row;
    if (line == "## The rooms") there = true;
    if (there && line.starts_with("### ")) break;
    if (there && std::regex_match(line, row, kRow)) rooms.push_back({row[1], row[2].matched});
  }
  return rooms;
}

// The files below a folder that the compiler reads.
std::vector<fs::path> SourcesBelow(const fs::path& folder) {
  std::vector<fs::path> sources;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension == ".h" || extension == ".cc") sources.push_back(entry.path());
  }
  return sources;
}

// What a file includes of this tree, as paths from its root: "ng/status.h" is
// core/include/ng/status.h, "ng/conform/check.h" is core/conform/include/ng/conform/check.h, and
// "../base/file.h" goes by the file's own folder.
std::vector<std::string> IncludesOf(const fs::path& source, const fs::path& root) {
  static const std::regex kInclude(" *# *include *[\"<]([^\">]+)[\">].*");
  static const std::regex kOurs("(core|plugins|apps|tests)/.*");
  std::vector<std::string> includes;
  for (const std::string& line : Lines(source)) {
    std::smatch found;
    if (!std::regex_match(line, found, kInclude)) continue;
    std::string path = found[1];
    if (path.starts_with("ng/")) {
      path.insert(0, path.starts_with("ng/conform/") ? "core/conform/include/" : "core/include/");
    } else if (path.starts_with(".")) {
      path = fs::relative((source.parent_path() / path).lexically_normal(), root).string();
    }
    if (std::regex_match(path, kOurs)) includes.push_back(path);
  }
  return includes;
}

class Floors {
 public:
  explicit Floors(const fs::path& root)
      : root_(root), rooms_(RoomsOf(root / "core" / "README.md")) {}

  // "core/base/file.h includes core/runtime/engine.h", for each include that runs up, into a room
  // that stands apart or out of it.
  std::vector<std::string> Wrong() const {
    std::vector<std::string> wrong;
    for (const fs::path& source : SourcesBelow(root_ / "core")) {
      const std::string file = fs::relative(source, root_).string();
      for (const std::string& include : IncludesOf(source, root_)) {
        if (Allowed(file, include)) continue;
        wrong.push_back(absl::StrCat(file, " includes ", include));
      }
    }
    return wrong;
  }

  // The room that has a file: the longest name that the file's folder begins with.
  const Room* RoomOf(const std::string& path) const {
    const Room* room = nullptr;
    for (const Room& candidate : rooms_) {
      const bool longer = room == nullptr || candidate.name.size() > room->name.size();
      if (longer && path.starts_with(absl::StrCat("core/", candidate.name, "/"))) {
        room = &candidate;
      }
    }
    return room;
  }

 private:
  bool Allowed(const std::string& file, const std::string& include) const {
    const Room* const from = RoomOf(file);
    const Room* const to = RoomOf(include);
    const bool apart = (from != nullptr && from->apart) || (to != nullptr && to->apart);
    if (apart) return from == to || FloorOf(include) == 0;
    return FloorOf(file) >= FloorOf(include);
  }

  // The place of a file's room, from the ground up. Files of no room are above all of them, and the
  // doors of the engine belong to the room behind them.
  size_t FloorOf(const std::string& path) const {
    for (const char* const door : {"engine.h", "generation.h", "session.h"}) {
      if (path == absl::StrCat("core/include/ng/", door)) return FloorOf("core/runtime/engine/");
    }
    const Room* const room = RoomOf(path);
    return room == nullptr ? rooms_.size() : static_cast<size_t>(room - rooms_.data());
  }

  fs::path root_;
  std::vector<Room> rooms_;
};

// "plugins/probe/row_editor.h includes core/base/file.h", for each include of a plugin that is
// neither of the SDK nor of the plugins.
std::vector<std::string> WrongInPlugins(const fs::path& root) {
  std::vector<std::string> wrong;
  for (const fs::path& source : SourcesBelow(root / "plugins")) {
    for (const std::string& include : IncludesOf(source, root)) {
      if (include.starts_with("core/include/ng/") || include.starts_with("plugins/")) continue;
      wrong.push_back(absl::StrCat(fs::relative(source, root).string(), " includes ", include));
    }
  }
  return wrong;
}

TEST(Floors, TheTableHasEveryRoom) {
  const fs::path root = NG_SOURCE_DIR;
  const Floors floors(root);
  for (const fs::path& source : SourcesBelow(root / "core")) {
    const std::string file = fs::relative(source, root).string();
    EXPECT_NE(floors.RoomOf(file), nullptr) << file << " is in no room of the table";
  }
}

TEST(Floors, NoIncludeRunsUpOrIntoARoomApart) {
  EXPECT_THAT(Floors(NG_SOURCE_DIR).Wrong(), IsEmpty());
}

TEST(Floors, PluginsIncludeTheSdkAlone) { EXPECT_THAT(WrongInPlugins(NG_SOURCE_DIR), IsEmpty()); }

TEST(Floors, AWrongIncludeIsFound) {
  const TempDir dir;
  const fs::path root = dir.path();
  const auto plant = [&root](const char* file, const char* text) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  };
  plant("core/README.md", "");
  fs::copy_file(fs::path(NG_SOURCE_DIR) / "core" / "README.md", root / "core" / "README.md",
                fs::copy_options::overwrite_existing);
  plant("core/base/planted.h",
        "#include \"core/base/hash.h\"\n#include \"ng/status.h\"\n"
        "#include \"core/runtime/assembly/assembly.h\"\n#include \"ng/engine.h\"\n");
  plant("core/runtime/engine/planted.cc",
        "#include \"core/base/hash.h\"\n#include \"ng/engine.h\"\n"
        "#include \"core/conform/texts.h\"\n#include <ng/conform/check.h>\n"
        "#include \"../../conform/fence.h\"\n");
  plant("core/include/ng/planted.h", "#include \"ng/conform/speed.h\"\n");
  plant("core/conform/planted.cc",
        "#include \"core/conform/texts.h\"\n#include \"ng/conform/check.h\"\n"
        "#include \"ng/status.h\"\n#include \"core/base/hash.h\"\n#include \"ng/engine.h\"\n");
  EXPECT_THAT(Floors(root).Wrong(),
              UnorderedElementsAre(
                  "core/base/planted.h includes core/runtime/assembly/assembly.h",
                  "core/base/planted.h includes core/include/ng/engine.h",
                  "core/runtime/engine/planted.cc includes core/conform/texts.h",
                  "core/runtime/engine/planted.cc includes core/conform/include/ng/conform/check.h",
                  "core/runtime/engine/planted.cc includes core/conform/fence.h",
                  "core/include/ng/planted.h includes core/conform/include/ng/conform/speed.h",
                  "core/conform/planted.cc includes core/base/hash.h",
                  "core/conform/planted.cc includes core/include/ng/engine.h"));

  plant("plugins/probe/planted.h",
        "#include \"ng/probe.h\"\n#include \"plugins/probe/row_editor.h\"\n"
        "#include \"ng/conform/check.h\"\n#include \"core/conform/texts.h\"\n"
        "#include \"../../core/base/hash.h\"\n");
  EXPECT_THAT(WrongInPlugins(root),
              UnorderedElementsAre(
                  "plugins/probe/planted.h includes core/conform/include/ng/conform/check.h",
                  "plugins/probe/planted.h includes core/conform/texts.h",
                  "plugins/probe/planted.h includes core/base/hash.h"));
}

// So a program that embeds ng can do all that these do. Python's `diff`, `eval` and `plan` are the
// programs without their command lines, and ng-conform runs the checks.
TEST(Floors, ProgramsIncludeTheSdkAndWhatTheyShare) {
  const fs::path root = NG_SOURCE_DIR;
  const auto is_of_a_program = [](const std::string& include) {
    return include.starts_with("apps/diff/") || include.starts_with("apps/eval/") ||
           include.starts_with("apps/plan/");
  };
  for (const fs::path& source : SourcesBelow(root / "apps")) {
    // apps/run/ for apps/run/chat/session.cc too.
    const std::string own =
        absl::StrCat("apps/", fs::relative(source, root / "apps").begin()->string(), "/");
    for (const std::string& include : IncludesOf(source, root)) {
      EXPECT_TRUE(include.starts_with("core/include/ng/") || include.starts_with("apps/common/") ||
                  include.starts_with("apps/view/") || include.starts_with(own) ||
                  (own == "apps/python/" && is_of_a_program(include)) ||
                  (own == "apps/conform/" && include.starts_with("core/conform/include/")))
          << source << ": " << include;
    }
  }
}

}  // namespace
}  // namespace ng
