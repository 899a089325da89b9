// Only the executor's threads compute: who begins another one is named here, with what it is for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace ng {
namespace {

namespace fs = std::filesystem;

std::set<std::string> FilesThatBeginThreads() {
  static const std::regex kBegin(R"(std::j?thread\b(?!::)|pthread_create|std::async)");
  std::set<std::string> files;
  for (const char* const tree : {"core", "plugins"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(NG_SOURCE_DIR) / tree)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc") continue;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        line.resize(std::min(line.size(), line.find("//")));
        if (!std::regex_search(line, kBegin)) continue;
        files.insert(fs::relative(entry.path(), NG_SOURCE_DIR).string());
      }
    }
  }
  return files;
}

TEST(Threads, BeginInNamedPlacesAlone) {
  std::set<std::string> files = FilesThatBeginThreads();
  std::erase_if(files, [](const std::string& file) { return file.starts_with("core/conform/"); });
  EXPECT_THAT(files,
              testing::UnorderedElementsAre(
                  "core/machine/helpers.cc",               // asks for threads before oneTBB does
                  "core/model/ranks/micro_batches.cc",     // rows of ranks that take turns
                  "core/runtime/engine/sampler_maker.cc",  // makes sampler chains of requests
                  "core/runtime/engine/sampler_maker.h",   //
                  "core/runtime/engine/session.cc"         // calls the engine
                  ));
}

}  // namespace
}  // namespace ng
