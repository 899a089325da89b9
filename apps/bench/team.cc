#include "apps/bench/team.h"

#include <chrono>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace ng::bench {

absl::StatusOr<std::unique_ptr<Team>> Team::Create(int threads) {
  std::unique_ptr<Team> team(new Team(threads));
  team->others_.reserve(static_cast<size_t>(threads));
  for (int thread = 1; thread < threads; ++thread) {
    try {
      team->others_.emplace_back([team = team.get(), thread] { team->Work(thread); });
    } catch (const std::system_error& error) {
      return LimitError(absl::StrCat("measuring the machine needs ", threads, " threads, ", thread,
                                     " could be begun (", error.what(), "); lower run.threads"));
    }
  }
  return team;
}

Team::~Team() {
  over_ = true;
  ++run_;
  run_.notify_all();
  for (std::thread& other : others_) other.join();
}

double Team::Run(const std::function<void(int thread)>& body) {
  body_ = &body;
  awake_ = 0;
  done_ = 0;
  ++run_;
  run_.notify_all();
  while (awake_ != threads_ - 1) std::this_thread::yield();
  const auto start = std::chrono::steady_clock::now();
  RunTogether(0);
  while (done_ != threads_) std::this_thread::yield();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Team::Work(int thread) {
  for (uint32_t seen = 0;; ++seen) {
    run_.wait(seen);
    if (over_) return;
    RunTogether(thread);
  }
}

void Team::RunTogether(int thread) {
  ++awake_;
  while (awake_ != threads_) std::this_thread::yield();
  (*body_)(thread);
  ++done_;
}

}  // namespace ng::bench
