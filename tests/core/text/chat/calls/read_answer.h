// Reads answers for tests.
#ifndef NG_TESTS_CORE_TEXT_CHAT_CALLS_READ_ANSWER_H_
#define NG_TESTS_CORE_TEXT_CHAT_CALLS_READ_ANSWER_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ng/answer_reader.h"
#include "ng/tokenizer.h"

namespace ng::test {

// An answer, put together from its pieces.
struct ReadBack {
  std::string content = {};
  std::string reasoning = {};
  std::vector<std::pair<std::string, std::string>> calls = {};  // name, arguments
  bool operator==(const ReadBack&) const = default;
};

// Taken after each token.
ReadBack ReadTokens(const Tokenizer& tokenizer, std::span<const int32_t> ids, AnswerReader& reader);
// The same with bytes that are no marks in pieces of random lengths.
ReadBack ReadCut(const Tokenizer& tokenizer, std::span<const int32_t> ids, uint64_t seed,
                 AnswerReader& reader);
// A text as a model writes it, in which the tokenizer's special tokens are these.
ReadBack ReadText(const Tokenizer& tokenizer, const std::string& text, AnswerReader& reader);

}  // namespace ng::test

#endif  // NG_TESTS_CORE_TEXT_CHAT_CALLS_READ_ANSWER_H_
