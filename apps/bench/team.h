// A few threads that do the same thing at the same time and are timed together.
//
// This is not the engine's executor: what ng is compared with must not depend on how ng shares its
// work. One thread uses the team and is its first member.
#ifndef NG_APPS_BENCH_TEAM_H_
#define NG_APPS_BENCH_TEAM_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "ng/status.h"

namespace ng::bench {

class Team {
 public:
  // Starts threads - 1 threads, which sleep between runs. Errors: LimitError. REQUIRES: threads
  // >= 1.
  static absl::StatusOr<std::unique_ptr<Team>> Create(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const { return threads_; }

  // Calls body(0), ..., body(threads() - 1) at the same time. Returns the seconds from the moment
  // when all are awake until the last one is done.
  double Run(const std::function<void(int thread)>& body);

 private:
  explicit Team(int threads) : threads_(threads) {}
  void Work(int thread);
  // What one thread does in a run: it waits until all are awake, then calls the body.
  void RunTogether(int thread);

  const int threads_;
  const std::function<void(int)>* body_ = nullptr;
  std::atomic<uint32_t> run_{0};  // counts the runs; a change wakes the threads
  std::atomic<bool> over_{false};
  std::atomic<int> awake_{0};
  std::atomic<int> done_{0};
  std::vector<std::thread> others_;  // [threads - 1]
};

}  // namespace ng::bench

#endif  // NG_APPS_BENCH_TEAM_H_
