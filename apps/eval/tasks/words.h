// The words that tasks are made of, and the text between what matters.
#ifndef NG_APPS_EVAL_TASKS_WORDS_H_
#define NG_APPS_EVAL_TASKS_WORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "apps/eval/tasks/draws.h"

namespace ng::eval {

// "The old miller carried a lantern to the harbour."
std::string ProseSentence(const DrawsKey& key);

// A name of two words, "amber falcon"; no two of them are alike for 0 <= i < 2304, and behind that
// a number tells them apart.
std::string NameOf(int64_t i);
// So many different names, as whole numbers for NameOf.
std::vector<int64_t> DrawNames(Draws& draws, int64_t n);
// So many different numbers of five digits.
std::vector<std::string> DrawNumbers(Draws& draws, int64_t n);
// So many different nouns.
std::vector<std::string> DrawNouns(Draws& draws, int64_t n);
// So many different words of three capital letters.
std::vector<std::string> DrawVariables(Draws& draws, int64_t n);

// "It was so, so quiet.", with so many times ", so": it fills what no sentence fits into.
std::string PaddingSentence(int64_t n_words);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_TASKS_WORDS_H_
