// Pieces take turns in one order, send in that order while others compute, and end together.
#include "core/model/ranks/micro_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace ng::test {
namespace {

using ::testing::ElementsAre;

struct Seen {
  std::vector<int> turns;  // of which piece each was
  std::vector<int> sent;
  int piece = -1;  // whose turn it is

  auto Begin() {
    return [this](int of) {
      piece = of;
      turns.push_back(of);
    };
  }
};

TEST(MicroBatches, GoOneAfterTheOtherAndSoDoMessages) {
  Seen seen;
  MicroBatches turns(3);
  const absl::Status done = turns.Run(seen.Begin(), [&]() -> absl::Status {
    for (int i = 0; i < 2; ++i) {
      const int piece = seen.piece;
      NG_RETURN_IF_ERROR(turns.Send([&] {
        seen.sent.push_back(piece);
        return absl::OkStatus();
      }));
      EXPECT_EQ(seen.piece, piece);
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(done.ok()) << done;
  EXPECT_THAT(seen.turns, ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2));
  EXPECT_THAT(seen.sent, ElementsAre(0, 1, 2, 0, 1, 2));
}

// The message of the first piece is done only when the second piece has been computed.
TEST(MicroBatches, ComputeOnePieceWhileAnotherIsSent) {
  Seen seen;
  std::atomic<bool> computed = false;
  MicroBatches turns(2);
  const absl::Status done = turns.Run(seen.Begin(), [&] {
    const bool first = seen.piece == 0;
    if (!first) computed = true;
    return turns.Send([&] {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!computed && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      return computed ? absl::OkStatus() : RuntimeError("nobody computes meanwhile");
    });
  });
  EXPECT_TRUE(done.ok()) << done;
}

TEST(MicroBatches, DoTogetherOnceOnTheCallersThreadWhatAllHaveComeTo) {
  Seen seen;
  const std::thread::id caller = std::this_thread::get_id();
  int n_come = 0;
  int n_calls = 0;
  MicroBatches turns(4);
  const absl::Status done = turns.Run(seen.Begin(), [&]() -> absl::Status {
    for (int i = 1; i <= 3; ++i) {
      ++n_come;
      NG_RETURN_IF_ERROR(turns.Together([&] {
        EXPECT_EQ(n_come, 4 * i);
        EXPECT_EQ(std::this_thread::get_id(), caller);
        ++n_calls;
        return absl::OkStatus();
      }));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(done.ok()) << done;
  EXPECT_EQ(n_calls, 3);
}

// Where a piece fails: in its turn, with its message, or with what all do together.
enum class Fails { kInTurn, kSending, kTogether };

TEST(MicroBatches, EndTogetherWithTheFirstError) {
  for (const Fails fails : {Fails::kInTurn, Fails::kSending, Fails::kTogether}) {
    for (int at = 0; at < 3; ++at) {
      Seen seen;
      std::atomic<int> n_ended_well = 0;
      MicroBatches turns(3);
      const absl::Status done = turns.Run(seen.Begin(), [&]() -> absl::Status {
        const int piece = seen.piece;
        const auto fail = [&](Fails where) {
          return fails == where && piece == at ? RuntimeError("no") : absl::OkStatus();
        };
        for (int i = 0; i < 3; ++i) {
          if (i == 1) NG_RETURN_IF_ERROR(fail(Fails::kInTurn));
          NG_RETURN_IF_ERROR(
              turns.Send([&] { return i == 1 ? fail(Fails::kSending) : absl::OkStatus(); }));
          NG_RETURN_IF_ERROR(turns.Together([&] {
            return i == 1 && fails == Fails::kTogether ? RuntimeError("no") : absl::OkStatus();
          }));
        }
        ++n_ended_well;
        return absl::OkStatus();
      });
      EXPECT_EQ(done.message(), "no");
      EXPECT_EQ(n_ended_well, 0);
    }
  }
}

TEST(MicroBatches, ThrowAgainWhatAPieceThrows) {
  for (int at = 0; at < 3; ++at) {
    Seen seen;
    MicroBatches turns(3);
    const auto run = [&] {
      return turns.Run(seen.Begin(), [&]() -> absl::Status {
        if (seen.piece == at) throw std::bad_alloc();
        return turns.Send([] { return absl::OkStatus(); });
      });
    };
    EXPECT_THROW((void)run(), std::bad_alloc);
  }
}

}  // namespace
}  // namespace ng::test
