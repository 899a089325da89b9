// One fault: what is done to a run, and what may come of it.
#ifndef NG_TESTS_FAULTS_CASE_H_
#define NG_TESTS_FAULTS_CASE_H_

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/faults/scenario.h"

namespace ng::faults {

// The same numbers for the same seed, on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {  // SplitMix64
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // One of 0 to n - 1. REQUIRES: n > 0.
  uint64_t Below(uint64_t n) { return Next() % n; }
  bool Percent(int percent) { return Below(100) < static_cast<uint64_t>(percent); }
  template <typename List>
  const auto& Of(const List& list) {
    return list[static_cast<size_t>(Below(std::size(list)))];
  }

 private:
  uint64_t state_;
};

// Somebody at the other end of a FIFO.
struct Partner {
  std::string path;
  bool writes = false;   // else reads
  std::string bytes;     // that it writes; then it leaves
  int64_t most = -1;     // bytes that it reads before it leaves; negative: all
  int64_t pause_us = 0;  // between reads
};

struct Case {
  const Scenario* scenario = nullptr;
  std::string folder;
  std::string story;  // what is done, in words
  Launch launch;
  std::vector<Partner> partners;

  std::set<int> codes;         // that the program may end with
  bool by_place = false;       // also with the one that fits the file that was struck first
  bool may_not_begin = false;  // the loader may fail before main
  bool other_result = false;   // exit 0 may come with another result than the undisturbed run's
  bool silent_end = false;     // 7 may come without a line: who read stdout has left
  bool own_inputs = false;     // in/ is a folder of the case
  std::string kept;  // an input, in in/, that must stay as it is; empty: none is looked at
  std::string kept_bytes;
  std::set<std::string> set_aside;    // outputs where no file stands: not looked at
  std::set<std::string> made_before;  // names in out/ that are not the program's
};

struct FaultClass {
  const char* name;
  const char* what;
  int n_short;  // cases in the short form
  void (*make)(const World& world, Random& random, Case* c);
};

std::span<const FaultClass> FaultClasses();

// Which codes an error of `call` at `where` may end in.
std::set<int> CodesAt(const std::string& where);

// What is wrong with the way in which a case ended; empty: nothing.
std::string Judge(const Case& c, const Outcome& outcome);

// Files of in/, all of them, copied or linked into a folder of the case's own.
void OwnInputs(const World& world, Case* c);

}  // namespace ng::faults

#endif  // NG_TESTS_FAULTS_CASE_H_
