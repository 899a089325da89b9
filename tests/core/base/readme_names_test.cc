// What a README names in the code is there: a class, a function, a constant, a test. Who looks for
// it finds it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ng {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Words = std::set<std::string, std::less<>>;

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

void AddWords(std::string_view text, Words* words) {
  while (!text.empty()) {
    size_t size = 0;
    while (size < text.size() && IsWordCharacter(text[size])) ++size;
    if (size > 0) words->emplace(text.substr(0, size));
    text.remove_prefix(std::max<size_t>(size, 1));
  }
}

// What stands between backticks, outside of blocks of code.
std::vector<std::string> QuotedOf(std::string_view readme) {
  std::vector<std::string> quoted;
  bool block = false;
  while (!readme.empty()) {
    const std::string_view line = readme.substr(0, readme.find('\n'));
    readme.remove_prefix(std::min(readme.size(), line.size() + 1));
    const size_t indent = line.find_first_not_of(' ');
    const bool fence = indent != line.npos && line.substr(indent).starts_with("```");
    if (fence) block = !block;
    size_t begin = block || fence ? line.npos : line.find('`');
    while (begin != line.npos) {
      const size_t end = line.find('`', begin + 1);
      if (end == line.npos) break;
      quoted.emplace_back(line.substr(begin + 1, end - begin - 1));
      begin = line.find('`', end + 1);
    }
  }
  return quoted;
}

// The names of the code in it: Words.LikeThese, kConstants. A word of one or two capitals, or all
// in capitals, may be anything.
std::vector<std::string> NamesIn(const std::string& quoted) {
  static const std::regex kName("(k[A-Z]|[A-Z][a-z0-9]*[a-z][A-Z0-9]+[a-z])[A-Za-z0-9]*");
  std::vector<std::string> names;
  Words words;
  AddWords(quoted, &words);
  for (const std::string& word : words) {
    if (std::regex_match(word, kName)) names.push_back(word);
  }
  return names;
}

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Tree {
  Words words;  // of the code
  std::vector<fs::path> readmes;
};

Tree TreeBelow(const fs::path& root) {
  static const std::set<std::string> kCode = {".h", ".cc", ".py", ".pyi", ".js", ".cmake", ".sh"};
  Tree tree;
  for (const char* const folder : {"core", "plugins", "apps", "tests"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      const fs::path& path = entry.path();
      if (!entry.is_regular_file()) continue;
      if (path.extension() == ".md") tree.readmes.push_back(path);
      const bool code = kCode.contains(path.extension()) || path.filename() == "CMakeLists.txt";
      if (code && path.filename() != "readme_names_test.cc") AddWords(ReadAll(path), &tree.words);
    }
  }
  for (const char* const name : {"README.md", "CONTRIBUTING.md"}) {
    if (fs::exists(root / name)) tree.readmes.push_back(root / name);
  }
  return tree;
}

TEST(ReadmeNames, AreInTheCode) {
  const Tree tree = TreeBelow(NG_SOURCE_DIR);
  ASSERT_GT(tree.readmes.size(), 30U);
  std::vector<std::string> missing;
  size_t n_names = 0;
  for (const fs::path& readme : tree.readmes) {
    for (const std::string& quoted : QuotedOf(ReadAll(readme))) {
      for (const std::string& name : NamesIn(quoted)) {
        ++n_names;
        if (!tree.words.contains(name)) {
          missing.push_back(absl::StrCat(readme.string(), ": ", name, " in `", quoted, "`"));
        }
      }
    }
  }
  EXPECT_THAT(missing, IsEmpty());
  EXPECT_GT(n_names, 300U);
}

TEST(ReadmeNames, AreThoseBetweenBackticks) {
  EXPECT_THAT(QuotedOf("a `B` c `D\n`E`\n```\n`F`\n```\n`G`"), ElementsAre("B", "E", "G"));
  EXPECT_THAT(NamesIn("Suite.TellsThis, ng::CacheStore<int> of kRows at a README's Word, GGUF, K8"),
              ElementsAre("CacheStore", "TellsThis", "kRows"));
}

}  // namespace
}  // namespace ng
