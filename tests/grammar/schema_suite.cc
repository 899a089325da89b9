// Judges texts by the grammars that the stage `grammar` makes, and compares that with what is known
// of them: instances of JSON Schema's own test suite, and suites of the same form that
// random_suites.py makes.
//
//   schema_suite FOLDER...      for example of the suite: tests/draft2020-12
//
// Says how many are judged right, how many are of grammars that are refused, and each that is
// judged wrong. An instance is spelled as configs/README.md says that answers are: an integer has
// no fraction. Formats are annotations, as in the suite. A group may have `regex` or `gbnf` in
// place of `schema`: then its data are texts, and `begins` says whether one begins a match. Exits
// with 1 where one is judged wrong, and where none is judged; with 2 for what is no folder of the
// suite. The suite is not part of ng: json-schema-org/JSON-Schema-Test-Suite.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "plugins/sampler/grammar/compile.h"
#include "plugins/sampler/grammar/masks/machine.h"

namespace {

using Json = nlohmann::ordered_json;

struct Figures {
  int right = 0;
  int refused = 0;
  int wrong = 0;
  std::map<std::string, int> reasons;  // how many are refused, by why
};

void SpellIntegers(Json& value) {
  constexpr double kExact = 1e18;
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (std::abs(number) < kExact && number == std::floor(number)) {
      value = static_cast<int64_t>(number);
    }
  }
  if (value.is_structured()) {
    for (Json& part : value) SpellIntegers(part);
  }
}

// The schemas of the suite's folder of this draft do not name it.
constexpr const char* kDraft7 = "http://json-schema.org/draft-07/schema#";

absl::StatusOr<ng::grammar::Program> Compile(const Json& group) {
  if (group.contains("regex")) return ng::grammar::CompileRegex(group["regex"].get<std::string>());
  if (group.contains("gbnf")) return ng::grammar::CompileGbnf(group["gbnf"].get<std::string>());
  return ng::grammar::CompileSchema(group["schema"].dump(),
                                    {.spelling = {.assert_formats = false}});
}

void JudgeGroup(const std::string& file, Json group, bool draft7, Figures& figures) {
  using ng::grammar::Machine;
  constexpr int64_t kReach = 8;
  const bool schema = group.contains("schema");
  if (draft7 && group["schema"].is_object()) group["schema"]["$schema"] = kDraft7;
  auto program = Compile(group);
  if (!program.ok()) {
    figures.refused += static_cast<int>(group["tests"].size());
    figures.reasons[std::string(program.status().message())] +=
        static_cast<int>(group["tests"].size());
    return;
  }
  Machine machine = *Machine::Make(*std::move(program), kReach);
  Json described = group;
  described.erase("tests");
  for (const Json& test : group["tests"]) {
    Json instance = test["data"];
    SpellIntegers(instance);
    const std::string text = schema ? instance.dump() : instance.get<std::string>();
    const int32_t now = machine.Advance(Machine::kStart, text).value();
    const bool matches = machine.CanEnd(now);
    const bool begins = now != Machine::kDead;
    if (matches == test["valid"].get<bool>() && begins == test.value("begins", begins)) {
      ++figures.right;
      continue;
    }
    ++figures.wrong;
    std::cout << "wrong: " << file << ": " << test["description"].get<std::string>() << ": " << text
              << (matches  ? " matches"
                  : begins ? " begins"
                           : " does not begin")
              << " what is allowed by " << described.dump() << "\n";
  }
}

int JudgeFolders(std::span<const char* const> folders) {
  Figures all;
  for (const char* folder : folders) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    const bool draft7 = std::filesystem::path(folder).filename() == "draft7";
    Figures figures;
    for (const auto& file : files) {
      std::ifstream stream(file);
      for (const Json& group : Json::parse(stream)) {
        JudgeGroup(file.filename().string(), group, draft7, figures);
      }
    }
    std::cout << folder << ": " << figures.right << " judged right, " << figures.refused
              << " of grammars that are refused, " << figures.wrong << " wrong, of "
              << figures.right + figures.refused + figures.wrong << "\n";
    for (const auto& [reason, n] : figures.reasons) {
      std::cout << "  refused: " << n << ": " << reason << "\n";
    }
    all.right += figures.right;
    all.wrong += figures.wrong;
  }
  return all.wrong == 0 && all.right > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return JudgeFolders(std::span(argv, argc).subspan(1));
  } catch (const std::exception& error) {  // a file that is not one of the suite
    std::fprintf(stderr, "schema_suite: error: %s\n", error.what());
    return 2;
  }
}
