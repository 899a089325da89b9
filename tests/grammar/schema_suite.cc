// Judges the instances of JSON Schema's own test suite by the grammars that the stage `grammar`
// makes of their schemas.
//
//   schema_suite FOLDER...      for example of the suite: tests/draft2020-12
//
// Says how many are judged right, how many are of schemas that are refused, and each that is judged
// wrong. An instance is spelled as configs/README.md says that answers are: an integer has no
// fraction. Formats are annotations, as in the suite. Exits with 1 where one is judged wrong, and
// where none is judged; with 2 for what is no folder of the suite. The suite is not part of ng:
// json-schema-org/JSON-Schema-Test-Suite.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
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

bool Matches(ng::grammar::Machine& machine, const std::string& text) {
  const absl::StatusOr<int32_t> now = machine.Advance(ng::grammar::Machine::kStart, text);
  return now.ok() && *now != ng::grammar::Machine::kDead && machine.CanEnd(*now);
}

// The schemas of the suite's folder of this draft do not name it.
constexpr const char* kDraft7 = "http://json-schema.org/draft-07/schema#";

void JudgeGroup(const std::string& file, Json group, bool draft7, Figures& figures) {
  constexpr int64_t kReach = 8;
  if (draft7 && group["schema"].is_object()) group["schema"]["$schema"] = kDraft7;
  auto program = ng::grammar::CompileSchema(group["schema"].dump(), {.assert_formats = false});
  if (!program.ok()) {
    figures.refused += static_cast<int>(group["tests"].size());
    return;
  }
  ng::grammar::Machine machine = *ng::grammar::Machine::Make(*std::move(program), kReach);
  for (const Json& test : group["tests"]) {
    Json instance = test["data"];
    SpellIntegers(instance);
    const bool matches = Matches(machine, instance.dump());
    if (matches == test["valid"].get<bool>()) {
      ++figures.right;
      continue;
    }
    ++figures.wrong;
    std::cout << "wrong: " << file << ": " << group["description"].get<std::string>() << ": "
              << test["description"].get<std::string>() << ": " << instance.dump() << " is judged "
              << (matches ? "valid" : "invalid") << " under " << group["schema"].dump() << "\n";
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
              << " of schemas that are refused, " << figures.wrong << " wrong, of "
              << figures.right + figures.refused + figures.wrong << "\n";
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
