// Tasks made by rule: the same on every machine, as long as asked for, with answers that are
// checked by text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/eval/tasks/draws.h"
#include "apps/eval/tasks/fit.h"
#include "apps/eval/tasks/puzzle.h"
#include "apps/eval/tasks/words.h"
#include "ng/fingerprint.h"

namespace ng::eval {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::SizeIs;

Puzzle PuzzleOf(std::string_view task, int64_t seed, int64_t example) {
  return DrawPuzzle(*FindTask(task), seed, example);
}

// All that a puzzle of three sentences says.
std::string TextOf(const Puzzle& puzzle) {
  std::string text = ContextOf(puzzle, {.sentences = 3, .padding = 1}) + puzzle.question;
  for (const std::string& candidate : puzzle.candidates) absl::StrAppend(&text, "|", candidate);
  return text;
}

// The generator's own published numbers for the state 0.
TEST(Draws, AreThoseOfSplitMix64) {
  // With all parts 0 the key only mixes the state: it is compared with a plain computation.
  uint64_t state = 0;
  const auto next = [&] {
    state += 0x9E3779B97F4A7C15U;
    uint64_t z = state;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  };
  EXPECT_EQ(next(), 0xE220A8397B1DCDAFU);
  EXPECT_EQ(next(), 0x6E789E6AA1B965F4U);
  Draws draws({});
  state = 0;
  for (int part = 0; part < 4; ++part) state = next();
  EXPECT_EQ(draws.Next(), next());
}

TEST(Tasks, AreTheSameOnEveryMachine) {
  EXPECT_EQ(
      TextOf(PuzzleOf("needle", 1, 0)),
      "Read this text. It was so, so quiet. The clever student drew a blue cup before supper. "
      "The steady merchant showed a warm hat during the summer. The crimson student found the "
      "ladder without a word. The secret number of the narrow falcon is 18637.\n\nQuestion: "
      "What is the secret number of the narrow falcon?\nAnswer: The secret number of the narrow "
      "falcon is| 18637| 22467| 23673| 19894");
  std::string all;
  for (const TaskInfo& task : Tasks()) {
    for (int64_t example = 0; example < 20; ++example) {
      all += TextOf(PuzzleOf(task.name, 7, example));
    }
  }
  EXPECT_EQ(HashText(all), "1b00962c5ebfa10c");
}

TEST(Tasks, DifferBySeedExampleAndTask) {
  std::set<std::string> texts;
  for (const TaskInfo& task : Tasks()) {
    for (const int64_t seed : {1, 2}) {
      for (int64_t example = 0; example < 5; ++example) {
        texts.insert(TextOf(PuzzleOf(task.name, seed, example)));
      }
    }
  }
  EXPECT_THAT(texts, SizeIs(Tasks().size() * 10));
}

TEST(Tasks, HaveTheirAnswerInTheContextAndNowhereInTheQuestion) {
  for (const TaskInfo& task : Tasks()) {
    for (int64_t example = 0; example < 30; ++example) {
      const Puzzle puzzle = PuzzleOf(task.name, 3, example);
      const std::string context = ContextOf(puzzle, {.sentences = 12});
      SCOPED_TRACE(context + puzzle.question);
      EXPECT_GE(puzzle.candidates.size(), 3U);
      EXPECT_THAT(std::set<std::string>(puzzle.candidates.begin(), puzzle.candidates.end()),
                  SizeIs(puzzle.candidates.size()));
      // The right candidate is the answer, the wrong ones are not.
      EXPECT_EQ(ScoreAnswer(puzzle, puzzle.candidates[0]), 1.0);
      for (size_t i = 1; i < puzzle.candidates.size(); ++i) {
        const bool both = task.name == "needles" && i == 1;  // in the other order
        EXPECT_EQ(ScoreAnswer(puzzle, puzzle.candidates[i]) < 1.0, !both) << puzzle.candidates[i];
      }
      if (task.name == "counting") continue;
      for (const std::string& answer : puzzle.answers) {
        EXPECT_TRUE(absl::StrContains(context, answer)) << answer;
        EXPECT_FALSE(absl::StrContains(puzzle.question, answer)) << answer;
      }
    }
  }
}

TEST(Tasks, CountingCountsItsSentences) {
  for (int64_t example = 0; example < 20; ++example) {
    const Puzzle puzzle = PuzzleOf("counting", 1, example);
    const std::string context = ContextOf(puzzle, {.sentences = 50});
    int64_t n = 0;
    for (size_t at = context.find("bell"); at != context.npos; at = context.find("bell", at + 1)) {
      ++n;
    }
    EXPECT_EQ(absl::StrCat(n), puzzle.answers[0]);
  }
}

TEST(Tasks, LookupAsksForOneNameOfManyThatDiffer) {
  const Puzzle puzzle = PuzzleOf("lookup", 1, 0);
  const std::string context = ContextOf(puzzle, {.sentences = 3000});
  std::map<std::string, int> names;
  for (const absl::string_view line : absl::StrSplit(context, '\n')) {
    ++names[std::string(line.substr(0, line.find(':')))];
  }
  EXPECT_THAT(names, SizeIs(3002));  // the heading, and the line that is asked for
  int n_right = 0;
  for (const absl::string_view line : absl::StrSplit(context, '\n')) {
    n_right += static_cast<int>(absl::EndsWith(line, puzzle.answers[0]));
  }
  EXPECT_EQ(n_right, 1);
}

TEST(Tasks, MoreSentencesComeBetweenAndChangeNoOther) {
  const Puzzle puzzle = PuzzleOf("needle", 1, 1);
  const std::string needle = puzzle.placed[0].text;
  std::string few = ContextOf(puzzle, {.sentences = 10});
  std::string many = ContextOf(puzzle, {.sentences = 20});
  ASSERT_THAT(many, HasSubstr(needle));
  for (std::string* text : {&few, &many}) text->erase(text->find(needle), needle.size() + 1);
  EXPECT_TRUE(absl::StartsWith(many, few.substr(0, few.size() - 1)));
}

TEST(Answers, AreWholeWordsWhateverTheirCase) {
  Puzzle puzzle;
  puzzle.answers = {"48213", "77718"};
  EXPECT_EQ(ScoreAnswer(puzzle, " 48213 and 77718."), 1.0);
  EXPECT_EQ(ScoreAnswer(puzzle, "77718, then (48213)"), 1.0);
  EXPECT_EQ(ScoreAnswer(puzzle, "48213"), 0.5);
  EXPECT_EQ(ScoreAnswer(puzzle, "482130 or 148213"), 0.0);
  EXPECT_EQ(ScoreAnswer(puzzle, ""), 0.0);
  puzzle.check = AnswerCheck::kInOrder;
  puzzle.answers = {"maple", "river", "cloud"};
  EXPECT_EQ(ScoreAnswer(puzzle, " Maple, RIVER and cloud"), 2.0 / 3.0);
  EXPECT_EQ(ScoreAnswer(puzzle, "river maple cloud"), 1.0 / 3.0);
  puzzle.answers = {"4"};
  EXPECT_EQ(ScoreAnswer(puzzle, " 4 times"), 1.0);
  EXPECT_EQ(ScoreAnswer(puzzle, " 40"), 0.0);
  EXPECT_EQ(ScoreAnswer(puzzle, " about 4"), 0.0);
}

// Every word, and every sign that is none, is a token.
absl::StatusOr<std::vector<int32_t>> WordIds(std::string_view text) {
  std::vector<int32_t> ids;
  bool within = false;
  for (const char c : text) {
    const bool part = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (part && within) {
      ids.back() = ids.back() * 31 + c;
    } else if (c != ' ') {
      ids.push_back(c);
    }
    within = part;
  }
  return ids;
}

absl::StatusOr<std::vector<int32_t>> ByteIds(std::string_view text) {
  return std::vector<int32_t>(text.begin(), text.end());
}

TEST(Fit, FillsAnyLengthToWithinAFewTokens) {
  for (const TaskInfo& task : Tasks()) {
    for (const int64_t length : {300, 1024, 2048, 8192}) {
      SCOPED_TRACE(absl::StrCat(std::string(task.name), " ", length));
      const Puzzle puzzle = PuzzleOf(task.name, 1, 4);
      const auto prompt = FitPuzzle(puzzle, length, WordIds);
      ASSERT_TRUE(prompt.ok()) << prompt.status();
      EXPECT_THAT(prompt->n_tokens(), AllOf(Le(length), Ge(length - 2)));
      EXPECT_TRUE(absl::EndsWith(prompt->text, puzzle.question));
      const std::vector<int32_t> question = *WordIds(puzzle.question);
      EXPECT_EQ(prompt->n_context, std::ssize(prompt->ids) - std::ssize(question));
      ASSERT_EQ(prompt->candidates.size(), puzzle.candidates.size());
      for (const auto& ids : prompt->candidates) {
        EXPECT_EQ(CommonPrefix(ids, prompt->ids), std::ssize(prompt->ids));
        EXPECT_LE(std::ssize(ids), length);
      }
    }
  }
  const auto bytes = FitPuzzle(PuzzleOf("copying", 1, 0), 4096, ByteIds);
  ASSERT_TRUE(bytes.ok());
  EXPECT_THAT(bytes->n_tokens(), AllOf(Le(4096), Ge(4096 - 4)));  // ", so"
}

TEST(Fit, SaysWhatATaskNeedsAtLeast) {
  const auto prompt = FitPuzzle(PuzzleOf("needle", 1, 0), 20, WordIds);
  EXPECT_THAT(std::string(prompt.status().message()),
              HasSubstr("a length of 20 tokens: the task needle needs at least "));
}

}  // namespace
}  // namespace ng::eval
