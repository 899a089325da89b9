// Conversations with random calls of tools, for tests of what writes and reads them.
#ifndef NG_TESTS_CORE_TEXT_CHAT_CALLS_RANDOM_CALLS_H_
#define NG_TESTS_CORE_TEXT_CHAT_CALLS_RANDOM_CALLS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/text/chat/calls/read_answer.h"

namespace ng::test {

class RandomCalls {
 public:
  // `marks`: more pieces of texts. No text has one of `unwritable`.
  RandomCalls(uint64_t seed, std::vector<std::string> marks, std::vector<std::string> unwritable);

  size_t Below(size_t n) { return random_() % n; }
  std::string Text();
  nlohmann::ordered_json Value(int depth);

 private:
  std::mt19937_64 random_;
  std::vector<std::string> bits_;
  const std::vector<std::string> unwritable_;
};

// A conversation of which the last answer has calls, and what these are.
struct MadeUp {
  nlohmann::ordered_json messages;
  nlohmann::ordered_json tools;
  ReadBack said;
};
MadeUp MakeUp(RandomCalls& random, bool several);

// Calls with their arguments as values: spaces and the order of keys are the template's.
std::vector<std::pair<std::string, nlohmann::json>> Values(const ReadBack& read);

}  // namespace ng::test

#endif  // NG_TESTS_CORE_TEXT_CHAT_CALLS_RANDOM_CALLS_H_
