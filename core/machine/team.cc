#include "core/machine/team.h"

#include <xmmintrin.h>

#include <chrono>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "core/machine/float_environment.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Clock::duration kStay = std::chrono::microseconds(200);

// A wait for what should come within microseconds: on the core at first, since waking up takes far
// longer, then giving the core to whoever wants it.
class Wait {
 public:
  void Restart() {
    begun_ = Clock::now();
    elapsed_ = {};
  }
  Clock::duration elapsed() const { return elapsed_; }

  void Once() {
    constexpr Clock::duration kPatience = std::chrono::microseconds(20);
    constexpr int kPausesPerLook = 16;  // reading the clock takes longer than a pause
    if (elapsed_ >= kPatience) {
      std::this_thread::yield();
    } else if (++n_pauses_ % kPausesPerLook != 0) {
      _mm_pause();
      return;
    }
    elapsed_ = Clock::now() - begun_;
  }

 private:
  Clock::time_point begun_ = Clock::now();
  Clock::duration elapsed_{0};
  unsigned n_pauses_ = 0;
};

}  // namespace

absl::Status Team::Run(const Region& region) {
  region_ = region;  // nobody looks at it now: all ranges of the last one are finished
  const Call call = {++n_regions_, region.n_ranges};
  call_.store(call.Word(), std::memory_order_release);
  RunRange(0, 0);
  int n_mine = 1;
  // From the end, so that a helper that is just coming has the longest time to get there.
  for (int range = region.n_ranges - 1; range > 0; --range) {
    if (!Claim(range, call)) continue;
    RunRange(range, 0);
    ++n_mine;
  }
  if (n_mine < region.n_ranges) {
    n_helped_ += static_cast<uint32_t>(region.n_ranges - n_mine);
    Wait wait;
    while (finished_.load(std::memory_order_acquire) != n_helped_) wait.Once();
  }
  return Result();
}

bool Team::Rouse(int n_wanted) {
  const int n_helpers = n_helpers_.load(std::memory_order_relaxed);
  if (n_helpers - n_asleep_.load(std::memory_order_relaxed) < n_wanted) WakeAll();
  return n_helpers > 0;
}

void Team::Fail(std::exception_ptr error) {
  if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::move(error);
}

uint32_t Team::Recruit(int n_helpers) {
  n_helpers_ = n_helpers;
  return term_;
}

void Team::Help(int worker, uint32_t term) {
  Wait wait;
  uint64_t last_seen = 0;
  while (term_.load(std::memory_order_relaxed) == term) {
    const uint64_t seen = call_.load(std::memory_order_acquire);
    if (seen != last_seen) {
      last_seen = seen;
      HelpWith(Call::Of(seen), worker);
      wait.Restart();
    } else if (wait.elapsed() < kStay) {
      wait.Once();
    } else {
      Sleep(seen, term);
      wait.Restart();
    }
  }
}

void Team::Dismiss() {
  n_helpers_ = 0;
  ++term_;
  WakeAll();
}

// The worker's own range, then those that nobody has begun. All are claimed after one look at each.
void Team::HelpWith(const Call& call, int worker) {
  for (int i = 0; i < call.n_ranges; ++i) {
    const int range = (worker + i) % call.n_ranges;
    if (range == 0 || !Claim(range, call)) continue;
    RunRange(range, worker);
    finished_.fetch_add(1, std::memory_order_release);
  }
}

// Only after a claim may a helper look at the region: from then on the caller waits for it. Who
// comes late finds the number of this region or a later one.
bool Team::Claim(int range, const Call& call) {
  std::atomic<uint64_t>& last = claims_[static_cast<size_t>(range)].region;
  uint64_t region = last.load(std::memory_order_relaxed);
  return region < call.region &&
         last.compare_exchange_strong(region, call.region, std::memory_order_relaxed);
}

void Team::RunRange(int range, int worker) {
  const DefaultFloatEnvironment environment;
  inside_ = this;
  try {
    region_.task(region_.context, region_.Begin(range), region_.Begin(range + 1), worker);
  } catch (...) {
    Fail(std::current_exception());
  }
  inside_ = nullptr;
}

absl::Status Team::Result() {
  if (!failed_.load(std::memory_order_relaxed)) return absl::OkStatus();
  failed_.store(false, std::memory_order_relaxed);
  try {
    std::rethrow_exception(std::exchange(error_, nullptr));
  } catch (const std::bad_alloc&) {
    return LimitError("out of memory");
  } catch (const std::exception& error) {
    return RuntimeError(std::string("exception in a worker: ") + error.what());
  } catch (...) {
    return RuntimeError("exception in a worker: an exception of unknown type");
  }
}

void Team::WakeAll() {
  n_asleep_.store(0, std::memory_order_relaxed);  // from now on they are on their way
  n_calls_.fetch_add(1);
  n_calls_.notify_all();
}

// Until the next call, unless there is something new since `seen`. The order of the loads sees to
// it that no helper sleeps through Dismiss.
void Team::Sleep(uint64_t seen, uint32_t term) {
  const int32_t n_calls = n_calls_.load();
  if (call_.load() != seen || term_.load() != term) return;
  n_asleep_.fetch_add(1, std::memory_order_relaxed);
  n_calls_.wait(n_calls);
}

}  // namespace ng
