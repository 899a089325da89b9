// Runs that end well when nobody disturbs them, and what they then give.
#ifndef NG_TESTS_FAULTS_SCENARIO_H_
#define NG_TESTS_FAULTS_SCENARIO_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/faults/launch.h"

namespace ng::faults {

// kSteps: lines of JSON.
enum class FileKind { kSteps, kTensors, kCache, kIds, kPage, kRecord };

inline constexpr const char* kRecordFile = "record.json";  // in in/: what a replay reads

struct OutputFile {
  const char* name;  // in out/
  FileKind kind;
};

enum Trait : unsigned {
  kTimed = 1,    // stdout holds times
  kHeavy = 2,    // takes seconds: chosen seldom
  kReports = 4,  // says on stdout what could not be read or run
  kAnswers = 8,  // answers each line of stdin, a refused one with an error line
};

// Every run has a folder of its own: in/ holds its inputs, out/ takes its outputs.
struct Scenario {
  const char* name;
  const char* program;
  std::vector<std::string> arguments;
  std::vector<OutputFile> outputs;
  std::vector<const char*> inputs;  // in in/, that it reads and names
  std::string input = {};           // stdin
  unsigned traits = 0;              // of Trait

  bool Is(Trait trait) const { return (traits & trait) != 0; }

  // Of the undisturbed run:
  std::string out = {};                           // Comparable
  std::map<std::string, std::string> files = {};  // bytes by name in out/
  std::array<uint64_t, kCallKinds> counts{};
  double seconds = 0;
};

struct World {
  std::string scratch;  // a folder for the run of the campaign
  std::string inputs;   // what in/ is, or is copied from
  std::string programs;
  std::string faults_library;
  double timeout_s = 10;  // that a run may take
  std::vector<Scenario> scenarios;

  const Scenario& Named(const std::string& name) const;
};

// Makes the inputs and runs every scenario undisturbed, twice. Throws std::runtime_error where one
// does not end well, or not twice with the same outputs.
World MakeWorld(const std::string& scratch, const std::string& programs, double timeout_s);

// A launch of a scenario in `folder`, which holds in/ and out/.
Launch LaunchOf(const World& world, const Scenario& scenario, const std::string& folder);

// Makes `folder`, with a link to the inputs as in/ and an empty out/.
void MakeFolder(const World& world, const std::string& folder);

// A text without the names of the run's folder, which differ between equal runs.
std::string WithoutFolder(const std::string& folder, std::string text);

// stdout without what differs between equal runs: the times, and the folder's name.
std::string Comparable(const Scenario& scenario, const std::string& folder, std::string out);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

}  // namespace ng::faults

#endif  // NG_TESTS_FAULTS_SCENARIO_H_
