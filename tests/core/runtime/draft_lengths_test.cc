// How many tokens are drafted: as many as gain time, by what is measured.
#include "core/runtime/loop/draft_lengths.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ng {
namespace {

// A machine on which a step of n rows takes base + n * row.
struct MadeUpMachine {
  double base = 1.0;
  double row = 0.05;
  double Seconds(int64_t rows) const { return base + row * static_cast<double>(rows - 1); }
};

// Runs steps of one sequence whose drafted tokens are kept with `chance`.
class OneSequence {
 public:
  explicit OneSequence(const MadeUpMachine& machine) : machine_(machine) {}
  // Returns tokens for each second.
  double Run(int64_t n_tokens, double chance) {
    double seconds = 0.0;
    int64_t tokens = 0;
    while (tokens < n_tokens) {
      DraftChoice choice = {.share = share_.value(), .most = 8, .n_quiet = n_quiet_};
      lengths_.Choose({&choice, 1});
      int64_t n_kept = 0;
      while (n_kept < choice.n_tokens && static_cast<double>(random_() % 1000) < chance * 1000) {
        ++n_kept;
      }
      ++n_quiet_;
      if (choice.n_tokens > 0) {
        share_.Add(n_kept, choice.n_tokens);
        n_quiet_ = 0;
      }
      const double taken = machine_.Seconds(1 + choice.n_tokens);
      lengths_.times().Add(static_cast<int>(1 + choice.n_tokens), taken);
      seconds += taken;
      tokens += 1 + n_kept;
    }
    return static_cast<double>(tokens) / seconds;
  }

 private:
  const MadeUpMachine machine_;
  DraftLengths lengths_{1, 8};
  KeptShare share_;
  int64_t n_quiet_ = 0;
  std::mt19937 random_{11};
};

TEST(DraftLengths, LosesNextToNothingWhereNothingIsKept) {
  for (const double row : {0.02, 0.1, 0.4}) {
    EXPECT_GT(OneSequence({.row = row}).Run(1000, 0.0), 0.975) << row;
  }
}

TEST(DraftLengths, GainsWhatThereIsToGain) {
  EXPECT_GT(OneSequence({.row = 0.02}).Run(4000, 0.8), 3.2);
  EXPECT_GT(OneSequence({.row = 0.05}).Run(4000, 0.6), 1.8);
  EXPECT_GT(OneSequence({.row = 0.05}).Run(4000, 0.3), 1.15);
  EXPECT_GT(OneSequence({.row = 0.02}).Run(4000, 1.0), 7.0);
  // Rows that cost half a step: drafts lose, but for a few tries.
  EXPECT_GT(OneSequence({.row = 0.5}).Run(4000, 0.3), 0.97);
}

TEST(DraftLengths, NoticesSoonThatDraftsAreKeptAgain) {
  OneSequence sequence({.row = 0.03});
  sequence.Run(64, 0.0);
  EXPECT_GT(sequence.Run(192, 0.8), 2.2);
}

// The drafts of a step go where they are kept.
TEST(DraftLengths, GivesMoreToSequencesWhoseDraftsAreKept) {
  DraftLengths lengths(3, 8);
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (int rows = 1; rows <= 27; ++rows) lengths.times().Add(rows, 1.0 + 0.05 * rows);
  }
  DraftChoice choices[] = {
      {.share = 0.9, .most = 8}, {.share = 0.3, .most = 8}, {.share = 0.9, .most = 2}};
  lengths.Choose(choices);
  EXPECT_GT(choices[0].n_tokens, choices[1].n_tokens + 2);
  EXPECT_EQ(choices[2].n_tokens, 2);
}

TEST(StepTimes, TakesUnknownSizesToBeCheapAndFollowsWhatIsMeasured) {
  StepTimes times(9);
  EXPECT_GT(times.Of(9), times.Of(1));
  times.Add(1, 50.0);  // the first is left out
  times.Add(1, 2.0);
  EXPECT_EQ(times.Of(1), 2.0);
  EXPECT_GT(times.Of(5), 2.0);
  EXPECT_LT(times.Of(5), 2.5);
  times.Add(5, 50.0);
  times.Add(5, 4.0);
  EXPECT_EQ(times.Of(3), 3.0);  // between the two
  EXPECT_GT(times.Of(6), 4.0);
  times.Add(5, 400.0);  // somebody else's fault, most likely
  EXPECT_LT(times.Of(5), 60.0);
  for (int i = 0; i < 10; ++i) times.Add(5, 4.0);
  EXPECT_NEAR(times.Of(5), 4.0, 0.1);
}

TEST(KeptShare, FollowsTheLatestDrafts) {
  KeptShare share;
  EXPECT_EQ(share.value(), 0.5);
  for (int i = 0; i < 20; ++i) share.Add(0, 4);
  EXPECT_LT(share.value(), 0.06);
  share.Add(4, 4);
  EXPECT_GT(share.value(), 0.3);
  for (int i = 0; i < 20; ++i) share.Add(4, 4);
  EXPECT_GT(share.value(), 0.94);
}

}  // namespace
}  // namespace ng
