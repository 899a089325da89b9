#include "apps/eval/tasks/puzzle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/eval/tasks/words.h"

namespace ng::eval {
namespace {

// Depths are drawn in steps of a thousandth, so that they are the same doubles everywhere.
constexpr int64_t kDepths = 1000;

double DrawDepth(Draws& draws) {
  return static_cast<double>(draws.Below(kDepths)) / static_cast<double>(kDepths);
}

// Puts sentences at depths by chance, in their order.
void Scatter(Draws& draws, std::span<const std::string> sentences, Puzzle* puzzle) {
  std::vector<double> depths;
  for (size_t i = 0; i < sentences.size(); ++i) depths.push_back(DrawDepth(draws));
  std::ranges::sort(depths);
  for (size_t i = 0; i < sentences.size(); ++i) puzzle->placed.push_back({depths[i], sentences[i]});
}

std::string NumberSentence(const std::string& name, const std::string& number) {
  return absl::StrCat("The secret number of the ", name, " is ", number, ".");
}

// One number is asked for; nothing else in the text is a number.
Puzzle DrawNeedle(const DrawsKey& key) {
  constexpr int64_t kWrong = 3;
  Draws draws(key);
  Puzzle puzzle;
  const std::string name = NameOf(DrawNames(draws, 1).front());
  const std::vector<std::string> numbers = DrawNumbers(draws, 1 + kWrong);
  const std::string needle = NumberSentence(name, numbers[0]);
  Scatter(draws, {&needle, 1}, &puzzle);
  puzzle.question = absl::StrCat("\n\nQuestion: What is the secret number of the ", name,
                                 "?\nAnswer: The secret number of the ", name, " is");
  puzzle.answers = {numbers[0]};
  for (const std::string& number : numbers) puzzle.candidates.push_back(" " + number);
  return puzzle;
}

// Four names have numbers; those of two are asked for.
Puzzle DrawNeedles(const DrawsKey& key) {
  constexpr int64_t kNeedles = 4;
  Draws draws(key);
  Puzzle puzzle;
  const std::vector<int64_t> names = DrawNames(draws, kNeedles);
  const std::vector<std::string> numbers = DrawNumbers(draws, kNeedles);
  std::vector<std::string> needles;
  for (size_t i = 0; i < numbers.size(); ++i) {
    needles.push_back(NumberSentence(NameOf(names[i]), numbers[i]));
  }
  const auto a = static_cast<size_t>(draws.Below(kNeedles));
  const size_t b = (a + 1 + static_cast<size_t>(draws.Below(kNeedles - 1))) % kNeedles;
  Scatter(draws, needles, &puzzle);
  const std::string both =
      absl::StrCat("of the ", NameOf(names[a]), " and of the ", NameOf(names[b]));
  puzzle.question = absl::StrCat("\n\nQuestion: What are the secret numbers ", both,
                                 "?\nAnswer: The secret numbers ", both, " are");
  puzzle.answers = {numbers[a], numbers[b]};
  const auto pair = [&](size_t first, size_t second) {
    return absl::StrCat(" ", numbers[first], " and ", numbers[second]);
  };
  size_t other = 0;  // one that is not asked for
  while (other == a || other == b) ++other;
  puzzle.candidates = {pair(a, b), pair(b, a), pair(a, other), pair(other, b)};
  return puzzle;
}

std::string PairLine(const std::string& name, const std::string& number) {
  return absl::StrCat(name, ": ", number);
}

// The line number `i` of the list around the one that is asked for.
std::pair<int64_t, std::string> OtherPair(const Puzzle& puzzle, int64_t i) {
  // The names follow each other from the asked one's, so none comes twice.
  Draws own(puzzle.key);
  const int64_t asked = DrawNames(own, 1).front();
  const std::string not_this = DrawNumbers(own, 1).front();
  DrawsKey key = puzzle.key;
  key.sentence = i + 1;
  Draws draws(key);
  std::string number = DrawNumbers(draws, 1).front();
  while (number == not_this) number = DrawNumbers(draws, 1).front();
  return {asked + 1 + i, std::move(number)};
}

// A list of names and numbers; that of one is asked for.
Puzzle DrawLookup(const DrawsKey& key) {
  constexpr int64_t kWrong = 3;
  Draws draws(key);
  Puzzle puzzle;
  puzzle.key = key;
  puzzle.pairs = true;
  const std::string name = NameOf(DrawNames(draws, 1).front());
  const std::string number = DrawNumbers(draws, 1).front();
  const std::string line = PairLine(name, number);
  Scatter(draws, {&line, 1}, &puzzle);
  puzzle.question = absl::StrCat("\n\nQuestion: Which number does the list give for ", name,
                                 "?\nAnswer: ", name, ":");
  puzzle.answers = {number};
  puzzle.candidates = {" " + number};
  for (int64_t i = 0; i < kWrong; ++i) {
    puzzle.candidates.push_back(absl::StrCat(" ", OtherPair(puzzle, i).second));
  }
  return puzzle;
}

// Three chains of variables, each of which gets the value of the one before; the last of one chain
// is asked for.
Puzzle DrawVariablesPuzzle(const DrawsKey& key) {
  constexpr int64_t kChains = 3;
  constexpr int64_t kLinks = 3;
  Draws draws(key);
  Puzzle puzzle;
  const std::vector<std::string> names = DrawVariables(draws, kChains * kLinks);
  const std::vector<std::string> numbers = DrawNumbers(draws, kChains);
  std::vector<std::string> sentences;
  for (int64_t link = 0; link < kLinks; ++link) {
    for (int64_t chain = 0; chain < kChains; ++chain) {
      const std::string& name = names[static_cast<size_t>(link * kChains + chain)];
      const std::string& value = link == 0
                                     ? numbers[static_cast<size_t>(chain)]
                                     : names[static_cast<size_t>((link - 1) * kChains + chain)];
      sentences.push_back(absl::StrCat("Let ", name, " = ", value, "."));
    }
  }
  Scatter(draws, sentences, &puzzle);
  const auto asked = static_cast<size_t>(draws.Below(kChains));
  const std::string& last = names[static_cast<size_t>((kLinks - 1) * kChains) + asked];
  puzzle.question =
      absl::StrCat("\n\nQuestion: Which number is ", last, "?\nAnswer: The number ", last, " =");
  puzzle.answers = {numbers[asked]};
  for (size_t i = 0; i < numbers.size(); ++i) {
    puzzle.candidates.push_back(" " + numbers[(asked + i) % numbers.size()]);
  }
  return puzzle;
}

// Six words stand somewhere in the text and are to be said again.
Puzzle DrawCopying(const DrawsKey& key) {
  constexpr int64_t kWords = 6;
  Draws draws(key);
  Puzzle puzzle;
  puzzle.check = AnswerCheck::kInOrder;
  const std::vector<std::string> words = DrawNouns(draws, kWords + 1);
  puzzle.answers.assign(words.begin(), words.begin() + kWords);
  const std::string sentence =
      absl::StrCat("Remember these words: ", absl::StrJoin(puzzle.answers, ", "), ".");
  Scatter(draws, {&sentence, 1}, &puzzle);
  puzzle.question =
      "\n\nQuestion: Which words are to be remembered?\nAnswer: Remember these words:";
  puzzle.candidates = {absl::StrCat(" ", absl::StrJoin(puzzle.answers, ", "))};
  // Two words change places; one is another.
  for (const size_t at : {size_t{0}, size_t{3}}) {
    std::vector<std::string> wrong = puzzle.answers;
    std::swap(wrong[at], wrong[at + 1]);
    puzzle.candidates.push_back(absl::StrCat(" ", absl::StrJoin(wrong, ", ")));
  }
  std::vector<std::string> wrong = puzzle.answers;
  wrong[static_cast<size_t>(draws.Below(kWords))] = words.back();
  puzzle.candidates.push_back(absl::StrCat(" ", absl::StrJoin(wrong, ", ")));
  return puzzle;
}

// A sentence comes so many times.
Puzzle DrawCounting(const DrawsKey& key) {
  constexpr int64_t kLeast = 2;
  constexpr int64_t kMost = 7;
  Draws draws(key);
  Puzzle puzzle;
  puzzle.check = AnswerCheck::kInOrder;
  const int64_t n = kLeast + draws.Below(kMost - kLeast + 1);
  const std::vector<std::string> sentences(static_cast<size_t>(n), "Then a bell rang.");
  Scatter(draws, sentences, &puzzle);
  puzzle.question =
      "\n\nQuestion: How many times did a bell ring in this text?\nAnswer: The number of times is";
  puzzle.answers = {absl::StrCat(n)};
  puzzle.candidates = {absl::StrCat(" ", n)};
  for (int64_t other = kLeast; other <= kMost; ++other) {
    if (other != n) puzzle.candidates.push_back(absl::StrCat(" ", other));
  }
  return puzzle;
}

constexpr TaskInfo kTasks[] = {
    {"needle", "one number among sentences", DrawNeedle},
    {"needles", "two of four numbers among sentences", DrawNeedles},
    {"lookup", "the number of a name in a list", DrawLookup},
    {"variables", "the value of a variable at the end of a chain of three", DrawVariablesPuzzle},
    {"copying", "six words in their order", DrawCopying},
    {"counting", "how often a sentence comes", DrawCounting},
};

// A number of the name: FNV-1a.
uint64_t NumberOfName(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3U;
  return hash;
}

}  // namespace

std::span<const TaskInfo> Tasks() { return kTasks; }

const TaskInfo* FindTask(std::string_view name) {
  const auto* const found = std::ranges::find(kTasks, name, &TaskInfo::name);
  return found == std::end(kTasks) ? nullptr : found;
}

Puzzle DrawPuzzle(const TaskInfo& task, int64_t seed, int64_t example) {
  const DrawsKey key = {.seed = seed, .task = NumberOfName(task.name), .example = example};
  Puzzle puzzle = task.draw(key);
  puzzle.task = task.name;
  puzzle.key = key;
  return puzzle;
}

std::string ContextOf(const Puzzle& puzzle, const ContextSize& size) {
  const char* const between = puzzle.pairs ? "\n" : " ";
  std::string context = puzzle.pairs ? "A list of names and numbers:" : "Read this text.";
  if (size.padding >= 0) absl::StrAppend(&context, " ", PaddingSentence(size.padding));
  auto next = puzzle.placed.begin();
  const auto add_placed = [&](int64_t sentence) {
    for (; next != puzzle.placed.end(); ++next) {
      if (next->depth * static_cast<double>(size.sentences) > static_cast<double>(sentence)) break;
      absl::StrAppend(&context, between, next->text);
    }
  };
  for (int64_t i = 0; i < size.sentences; ++i) {
    add_placed(i);
    DrawsKey key = puzzle.key;
    key.sentence = i + 1;
    if (puzzle.pairs) {
      const auto [name, number] = OtherPair(puzzle, i);
      absl::StrAppend(&context, between, PairLine(NameOf(name), number));
    } else {
      absl::StrAppend(&context, between, ProseSentence(key));
    }
  }
  add_placed(size.sentences);
  return context;
}

}  // namespace ng::eval
