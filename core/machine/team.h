// Where the thread that calls a parallel region meets those that help it.
//
// The engine's executor has one. It knows nothing of where helpers come from (helpers.h).
#ifndef NG_CORE_MACHINE_TEAM_H_
#define NG_CORE_MACHINE_TEAM_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "ng/executor.h"
#include "ng/status.h"

namespace ng {

// One call of Executor::Run.
struct Region {
  Executor::Task task = nullptr;
  void* context = nullptr;
  int64_t n_items = 0;
  int n_ranges = 0;

  // Ranges differ by at most one item; written so that no product can overflow.
  int64_t Begin(int range) const {
    return n_items / n_ranges * range + std::min<int64_t>(range, n_items % n_ranges);
  }
};

// Every worker has a range of its own, which it begins with: so it reads the same weights in every
// step, which are near it where its own packing touched them first. Regions are not handed to
// threads, though: who has done its own claims what others have not begun, the caller too, so
// nobody ever waits for a thread that the system does not run.
//
// Helpers stay awake for a while after a region, because the next one is a few microseconds away
// while a model runs, then sleep until a region finds too few awake. One that misses its call
// sleeps through a region: this takes a region longer, and nothing else.
class Team {
 public:
  // Of at most so many ranges.
  explicit Team(int n_ranges) : claims_(static_cast<size_t>(n_ranges)) {}
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // [caller] Runs the region with whoever helps. Exceptions stay inside the range that threw: every
  // other range finishes. The first one becomes the status: a RuntimeError "exception in a
  // worker: ...", bad_alloc a LimitError.
  absl::Status Run(const Region& region);

  // [caller] Whether there are any helpers; those asleep are called where a region wants them.
  bool Rouse(int n_wanted);

  // Whether this thread is inside one of the team's tasks, or inside any team's.
  bool IsInside() const { return inside_ == this; }
  static bool IsInsideAny() { return inside_ != nullptr; }
  // [task] The region fails with this exception, unless it has failed before.
  void Fail(std::exception_ptr error);

  // So many helpers are going to Help, for the term that is returned.
  uint32_t Recruit(int n_helpers);
  // [helper] Helps as `worker` until the term ends; if it has ended, not at all.
  void Help(int worker, uint32_t term);
  // [any thread] Ends the term: all helpers leave, after the region that they are in. There may be
  // another term afterwards.
  void Dismiss();

 private:
  // The word that a region is called out with. The number makes helpers see that there is another.
  struct Call {
    uint64_t region = 0;  // its number, from 1
    int n_ranges = 0;

    uint64_t Word() const { return region << kRangeBits | static_cast<uint64_t>(n_ranges); }
    static Call Of(uint64_t word) {
      return {word >> kRangeBits, static_cast<int>(word & ((uint64_t{1} << kRangeBits) - 1))};
    }
    static constexpr int kRangeBits = 16;
  };

  void HelpWith(const Call& call, int worker);
  bool Claim(int range, const Call& call);
  void RunRange(int range, int worker);
  absl::Status Result();
  void WakeAll();
  void Sleep(uint64_t seen, uint32_t term);

  static inline thread_local const Team* inside_ = nullptr;

  static constexpr size_t kCacheLine = 64;
  // What the caller writes and the helpers read: one cache line, so that it travels once.
  alignas(kCacheLine) std::atomic<uint64_t> call_{0};
  std::atomic<uint32_t> term_{0};
  Region region_;
  uint64_t n_regions_ = 0;
  uint32_t n_helped_ = 0;  // what finished_ comes to
  // What the helpers write: how many ranges they have finished since the beginning, modulo 2^32.
  alignas(kCacheLine) std::atomic<uint32_t> finished_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // set by whoever set failed_
  // Of each range the last region in which it was claimed: a cache line each, so that workers who
  // claim their own do not wait for each other.
  struct alignas(kCacheLine) LastClaim {
    std::atomic<uint64_t> region{0};
  };
  std::vector<LastClaim> claims_;
  // What changes rarely.
  alignas(kCacheLine) std::atomic<int> n_helpers_{0};  // of this term
  // At most so many helpers have not been called since they slept.
  std::atomic<int> n_asleep_{0};
  std::atomic<int32_t> n_calls_{0};  // what the sleepers wait for
};

}  // namespace ng

#endif  // NG_CORE_MACHINE_TEAM_H_
