// Checks: what every part of a kind must do, one by one, each with a name.
//
// A part that does what it must is silent; one that does not is told the first example against it.
// The tables of checks are in ng/conform/{attention,cache,sampler}.h. ng-conform runs each check in
// a process of its own; a test of an author may run them in its own process.
#ifndef NG_CONFORM_CHECK_H_
#define NG_CONFORM_CHECK_H_

#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/isa.h"

namespace ng::conform {

enum class Result { kOk, kFail, kSkipped };

struct Outcome {
  Result result = Result::kOk;
  std::string detail = {};  // kFail: the first example against it; kSkipped: why
};

inline Outcome Ok() { return {}; }
inline Outcome Fail(std::string_view example) { return {Result::kFail, std::string(example)}; }
inline Outcome Skip(std::string_view why) { return {Result::kSkipped, std::string(why)}; }
// kOk when nothing is wrong.
inline Outcome FailIf(std::string_view wrong) { return wrong.empty() ? Ok() : Fail(wrong); }

// What the checks of every kind go by.
struct CheckSettings {
  IsaLevel isa = IsaLevel::kScalar;
  uint32_t seed = 1;   // of all that is random
  bool quick = false;  // fewer shapes and shorter scripts
  // Allocations of this process so far. Empty: nobody counts, and what asks for it is skipped.
  std::function<int64_t()> count_allocations = {};
};

// One thing that a part must do. Subject: the part, how it is made, and the settings.
template <class Subject>
struct Check {
  std::string_view name;
  std::string_view asks;  // one line: what the part must do
  Outcome (*run)(const Subject& subject);
};

// Runs a check. An exception that the part lets out is a failure.
template <class Subject>
Outcome RunCheck(const Check<Subject>& check, const Subject& subject) {
  try {
    return check.run(subject);
  } catch (const std::exception& error) {
    return Fail(std::string("throws: ") + error.what());
  } catch (...) {
    return Fail("throws what is no std::exception");
  }
}

// "name: example" for each check that fails; empty for a part that conforms.
template <class Subject>
std::vector<std::string> RunChecks(std::span<const Check<Subject>> checks, const Subject& subject) {
  std::vector<std::string> failures;
  for (const Check<Subject>& check : checks) {
    const Outcome outcome = RunCheck(check, subject);
    if (outcome.result != Result::kFail) continue;
    failures.push_back(std::string(check.name) + ": " + outcome.detail);
  }
  return failures;
}

}  // namespace ng::conform

#endif  // NG_CONFORM_CHECK_H_
