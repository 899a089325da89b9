// libng_core.so shows the SDK and nothing else: what its headers do not declare cannot be called.
// The checks of parts are not in it at all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace ng {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The defined symbols of the library, demangled. `which`: -D for those that it shows; empty: all.
std::vector<std::string> Symbols(const std::string& which) {
  const std::string command =
      "nm " + which + " --defined-only -C " NG_BINARY_DIR "/lib/libng_core.so";
  FILE* const nm = popen(command.c_str(), "r");
  if (nm == nullptr) return {};
  std::string text;
  char piece[4096];
  while (const size_t n = std::fread(piece, 1, sizeof(piece), nm)) text.append(piece, n);
  pclose(nm);
  std::vector<std::string> symbols;
  std::istringstream lines(text);
  constexpr size_t kName = 19;  // after the address and the type
  for (std::string line; std::getline(lines, line);) symbols.push_back(line.substr(kName));
  return symbols;
}

std::vector<std::string> Exports() { return Symbols("-D"); }

std::set<std::string> WordsOfTheSdk() {
  static const std::regex kWord("[A-Za-z_][A-Za-z_0-9]*");
  std::set<std::string> words;
  for (const fs::directory_entry& header :
       fs::directory_iterator(fs::path(NG_SOURCE_DIR) / "core" / "include" / "ng")) {
    std::ifstream in(header.path());
    for (std::string line; std::getline(in, line);) {
      line.resize(std::min(line.find("//"), line.size()));
      words.insert(std::sregex_token_iterator(line.begin(), line.end(), kWord),
                   std::sregex_token_iterator());
    }
  }
  return words;
}

// The classes that the headers of the rooms define.
std::set<std::string> InternalClasses() {
  static const std::regex kClass("(class|struct) ([A-Za-z]+)( final)?( :.*)? \\{.*");
  std::set<std::string> classes;
  for (const fs::directory_entry& header :
       fs::recursive_directory_iterator(fs::path(NG_SOURCE_DIR) / "core")) {
    const std::string path = header.path();
    const bool shown = path.find("core/include/ng/") != path.npos;
    const bool apart = path.find("core/conform/") != path.npos;
    if (!path.ends_with(".h") || shown || apart) continue;
    std::ifstream in(path);
    std::smatch found;
    for (std::string line; std::getline(in, line);) {
      if (std::regex_match(line, found, kClass)) classes.insert(found[2]);
    }
  }
  return classes;
}

// ng::Engine::Load(ng::RunNeeds const&) -> {Engine, Load}; empty for a name that is not ng's.
std::vector<std::string> PathOf(std::string symbol) {
  for (const std::string_view kind :
       {"vtable for ", "typeinfo for ", "typeinfo name for ", "non-virtual thunk to "}) {
    if (symbol.starts_with(kind)) symbol.erase(0, kind.size());
  }
  if (!symbol.starts_with("ng::")) return {};
  if (const size_t abi = symbol.find("[abi:"); abi != symbol.npos) symbol.resize(abi);
  symbol.resize(std::min(symbol.find('('), symbol.size()));
  static const std::regex kPart("[A-Za-z_][A-Za-z_0-9]*");
  const std::string path = symbol.substr(4);
  return {std::sregex_token_iterator(path.begin(), path.end(), kPart),
          std::sregex_token_iterator()};
}

TEST(Exports, AreDeclaredByTheHeadersOfTheSdk) {
  const std::set<std::string> words = WordsOfTheSdk();
  const std::set<std::string> internal = InternalClasses();
  ASSERT_TRUE(internal.contains("Assembly"));
  for (const std::string& symbol : Exports()) {
    const std::vector<std::string> path = PathOf(symbol);
    ASSERT_FALSE(path.empty()) << symbol;
    EXPECT_FALSE(internal.contains(path.front())) << symbol;
    for (const std::string& part : path) EXPECT_TRUE(words.contains(part)) << symbol;
  }
}

TEST(Exports, HaveWhatProgramsAndPluginsCall) {
  const std::vector<std::string> exports = Exports();
  EXPECT_THAT(exports, Contains(StartsWith("ng::Engine::Open(")));
  EXPECT_THAT(exports, Contains(StartsWith("ng::UsageError(")));
  EXPECT_THAT(exports, Contains(StartsWith("typeinfo for ng::Tokenizer")));
  EXPECT_THAT(exports, Not(Contains(HasSubstr("::State::"))));
}

TEST(Exports, TheChecksOfPartsAreNoneOfTheLibrary) {
  const std::vector<std::string> all = Symbols("");
  EXPECT_THAT(all, Contains(HasSubstr("ng::Assembly::")));  // a hidden one is seen
  EXPECT_THAT(all, Not(Contains(HasSubstr("ng::conform::"))));
}

}  // namespace
}  // namespace ng
