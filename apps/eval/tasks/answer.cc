// Whether what a model says has the answer in it.
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "apps/eval/tasks/puzzle.h"

namespace ng::eval {
namespace {

// The runs of ASCII letters and digits of a text, as small letters. What is not ASCII parts none.
std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  bool within = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool part = byte >= 0x80 || std::isalnum(byte) != 0;
    if (part && !within) words.emplace_back();
    if (part) words.back() += static_cast<char>(byte < 0x80 ? std::tolower(byte) : byte);
    within = part;
  }
  return words;
}

}  // namespace

double ScoreAnswer(const Puzzle& puzzle, std::string_view said) {
  const std::vector<std::string> words = WordsOf(said);
  int64_t n_right = 0;
  for (size_t i = 0; i < puzzle.answers.size(); ++i) {
    const bool right = puzzle.check == AnswerCheck::kInOrder
                           ? i < words.size() && words[i] == puzzle.answers[i]
                           : std::ranges::count(words, puzzle.answers[i]) > 0;
    n_right += static_cast<int64_t>(right);
  }
  return static_cast<double>(n_right) / static_cast<double>(puzzle.answers.size());
}

}  // namespace ng::eval
