// A fabric whose ranks are threads of one process, for tests: each thread opens an engine of its
// own, and its plugin finds out by the thread which rank it is.
#ifndef NG_TESTS_PLUGINS_FABRIC_THREAD_RANKS_H_
#define NG_TESTS_PLUGINS_FABRIC_THREAD_RANKS_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ng/fabric.h"
#include "ng/plugins.h"

namespace ng::test {

// Where the threads of a run meet.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size), given_(static_cast<size_t>(size)) {}

  int size() const { return size_; }
  // Shows what a rank gives to all; false when not all came within a few seconds.
  bool Give(int rank, std::span<const std::byte> bytes) {
    given_[static_cast<size_t>(rank)] = bytes;
    return Wait();
  }
  std::span<const std::byte> Of(int rank) const { return given_[static_cast<size_t>(rank)]; }

  bool Wait() {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++here_ == size_) {
      here_ = 0;
      ++round_;
      all_here_.notify_all();
      return true;
    }
    return all_here_.wait_for(lock, std::chrono::seconds(20), [&] { return round_ != round; });
  }

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  int here_ = 0;
  int64_t round_ = 0;
  std::vector<std::span<const std::byte>> given_;
};

// The rank that this thread is.
inline thread_local std::pair<Meeting*, int> t_rank = {nullptr, 0};

// Bytes that all ranks have given together in calls of this thread.
inline thread_local int64_t t_gathered = 0;

class ThreadRank final : public Fabric {
 public:
  static absl::StatusOr<std::unique_ptr<Fabric>> Create(const PluginContext& /*context*/,
                                                        const FabricSpec& /*spec*/) {
    return std::make_unique<ThreadRank>();
  }

  int rank() const override { return rank_; }
  int size() const override { return meeting_.size(); }
  std::string Host(int rank) const override { return absl::StrCat("thread", rank); }
  absl::Status AllGather(std::span<const int64_t> counts, std::span<float> all) override {
    int64_t first = 0;
    for (int rank = 0; rank < rank_; ++rank) first += counts[static_cast<size_t>(rank)];
    const auto n = static_cast<size_t>(counts[static_cast<size_t>(rank_)]);
    if (!meeting_.Give(rank_, std::as_bytes(all.subspan(static_cast<size_t>(first), n)))) {
      return RuntimeError("a thread is missing");
    }
    t_gathered += static_cast<int64_t>(all.size_bytes());
    std::byte* to = std::as_writable_bytes(all).data();
    for (int rank = 0; rank < size(); ++rank) {
      const std::span<const std::byte> part = meeting_.Of(rank);
      if (rank != rank_) std::ranges::copy(part, to);
      to += part.size();
    }
    return Leave();
  }
  absl::Status Broadcast(int root, std::span<std::byte> bytes) override {
    if (!meeting_.Give(rank_, bytes)) return RuntimeError("a thread is missing");
    if (rank_ != root) std::ranges::copy(meeting_.Of(root), bytes.begin());
    return Leave();
  }
  absl::Status Barrier() override { return Leave(); }

 private:
  // What was given is read by now.
  absl::Status Leave() {
    return meeting_.Wait() ? absl::OkStatus() : RuntimeError("a thread is missing");
  }

  Meeting& meeting_ = *t_rank.first;
  const int rank_ = t_rank.second;
};

inline constexpr PluginDescriptor kThreadRanks =
    FabricPlugin<ThreadRank::Create>("threads", "1.0.0", "ranks that are threads", {});

// Calls run(rank) on a thread for each rank.
template <typename Run>
void OnRanks(int size, Run&& run) {
  Meeting meeting(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      t_rank = {&meeting, rank};
      run(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ng::test

#endif  // NG_TESTS_PLUGINS_FABRIC_THREAD_RANKS_H_
