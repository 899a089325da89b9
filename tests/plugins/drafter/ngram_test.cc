// What `ngram` finds, beside a search through the whole text.
#include "plugins/drafter/ngram/ngram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "plugins/drafter/ngram/suffix_index.h"

namespace ng {
namespace {

using Ids = std::vector<int32_t>;

// Where what followed the longest suffix of min to max tokens begins, the latest of such places.
int64_t Searched(const Ids& text, int64_t min, int64_t max) {
  const auto n = std::ssize(text);
  for (int64_t length = std::min(max, n - 1); length >= min; --length) {
    for (int64_t end = n - 1; end >= length; --end) {
      if (std::equal(text.end() - length, text.end(), text.begin() + end - length)) return end;
    }
  }
  return -1;
}

TEST(SuffixIndex, FindsTheLatestPlaceOfTheLongestSuffix) {
  std::mt19937 random(7);
  for (const auto& [min, max] : {std::pair(1, 1), {1, 4}, {2, 8}, {3, 3}, {5, 64}}) {
    for (const int vocabulary : {1, 2, 3, 40, 1000000}) {
      constexpr int64_t kTokens = 200;
      SuffixIndex index(min, max, kTokens);
      for (int repeat = 0; repeat < 2; ++repeat) {
        index.Clear();
        Ids text;
        for (int64_t i = 0; i < kTokens; ++i) {
          // Pieces that come again, now and then.
          const bool copied = i > 20 && random() % 4 != 0;
          text.push_back(copied ? text[static_cast<size_t>(i - 17)]
                                : static_cast<int32_t>(random() % vocabulary));
          index.Add(text.back());
          ASSERT_EQ(index.FindContinuation(), Searched(text, min, max))
              << "token " << i << " of " << vocabulary << ", " << min << " to " << max;
        }
        index.Add(5);  // no room for it
        EXPECT_TRUE(std::ranges::equal(index.tokens(), text));
      }
    }
  }
}

absl::StatusOr<std::unique_ptr<Drafter>> Made(int64_t min, int64_t max) {
  const OptionValue values[] = {
      {.name = "min", .type = OptionType::kInt, .integer = min, .text = {}},
      {.name = "max", .type = OptionType::kInt, .integer = max, .text = {}}};
  PluginContext context;
  context.options = OptionValues(values);
  return NgramDrafter::Create(context);
}

class Ngram {
 public:
  Ngram() : drafter_(*Made(2, 8)) {
    EXPECT_TRUE(drafter_->Load({.max_sequences = 2, .max_tokens = 64, .gamma = 4}).ok());
  }
  Ids Drafted(const Ids& prompt, size_t most) {
    EXPECT_TRUE(drafter_->Open(1, {.number = 0, .prompt_ids = prompt}).ok());
    Ids tokens(most);
    Draft draft{1, tokens};
    EXPECT_TRUE(drafter_->Propose({&draft, 1}).ok());
    tokens.resize(static_cast<size_t>(draft.n_tokens));
    return tokens;
  }

 private:
  std::unique_ptr<Drafter> drafter_;
};

TEST(Ngram, ProposesWhatFollowedEarlier) {
  Ngram ngram;
  EXPECT_EQ(ngram.Drafted({1, 2, 3, 4, 5, 9, 2, 3}, 3), (Ids{4, 5, 9}));
  // The longer run decides, though the shorter one was there later.
  EXPECT_EQ(ngram.Drafted({1, 2, 3, 4, 7, 2, 3, 5, 1, 2, 3}, 2), (Ids{4, 7}));
  EXPECT_EQ(ngram.Drafted({1, 2, 3, 4, 5, 9, 8, 3}, 3), Ids());  // one token alone is too few
  EXPECT_EQ(ngram.Drafted({3}, 3), Ids());
}

TEST(Ngram, GoesOnWithATextThatRepeatsItself) {
  Ngram ngram;
  EXPECT_EQ(ngram.Drafted({6, 7, 8, 6, 7, 8, 6}, 8), (Ids{7, 8, 6, 7, 8, 6, 7, 8}));
  EXPECT_EQ(ngram.Drafted({5, 5, 5}, 4), (Ids{5, 5, 5, 5}));
}

TEST(Ngram, RefusesAMinimumAboveTheMaximum) {
  const absl::Status status = Made(9, 8).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_EQ(status.message(), "drafter.ngram.min = 9, must be at most drafter.ngram.max = 8");
}

}  // namespace
}  // namespace ng
