// A fabric whose ranks are threads of one process, for tests: each thread opens an engine of its
// own, and its plugin finds out by the thread which rank it is.
#ifndef NG_TESTS_PLUGINS_FABRIC_THREAD_RANKS_H_
#define NG_TESTS_PLUGINS_FABRIC_THREAD_RANKS_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
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

  // Bytes that were given aside, of all ranks.
  void CountAside(int64_t n_bytes) { n_aside_ += n_bytes; }
  int64_t n_aside() const { return n_aside_; }

  using Message = std::vector<std::byte>;
  // Messages from one rank to another, in their order.
  std::deque<Message>& Mailbox(int from, int to) { return mail_[{from, to}]; }
  std::mutex& mutex() { return mutex_; }
  // Where the ranks [first, first + n) meet among themselves.
  Meeting& Part(int first, int n) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Meeting>& part = parts_[{first, n}];
    if (part == nullptr) part = std::make_unique<Meeting>(n);
    return *part;
  }

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  int here_ = 0;
  int64_t round_ = 0;
  std::atomic<int64_t> n_aside_ = 0;
  std::vector<std::span<const std::byte>> given_;
  std::map<std::pair<int, int>, std::deque<Message>> mail_;
  std::map<std::pair<int, int>, std::unique_ptr<Meeting>> parts_;
};

// The rank that this thread is.
inline thread_local std::pair<Meeting*, int> t_rank = {nullptr, 0};

// Bytes that all ranks have given together in calls of this thread.
inline thread_local int64_t t_gathered = 0;

// Bytes of messages that this thread has sent.
inline thread_local int64_t t_sent = 0;

class ThreadRank final : public Fabric {
 public:
  static absl::StatusOr<std::unique_ptr<Fabric>> Create(const PluginContext& /*context*/,
                                                        const FabricSpec& /*spec*/) {
    return std::make_unique<ThreadRank>(*t_rank.first, t_rank.second);
  }
  ThreadRank(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}

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
  // On a thread that is no rank itself.
  absl::Status AllGatherAside(std::span<const int64_t> counts, std::span<float> all) override {
    meeting_.CountAside(static_cast<int64_t>(all.size_bytes()));
    return AllGather(counts, all);
  }
  absl::Status Broadcast(int root, std::span<std::byte> bytes) override {
    if (!meeting_.Give(rank_, bytes)) return RuntimeError("a thread is missing");
    if (rank_ != root) std::ranges::copy(meeting_.Of(root), bytes.begin());
    return Leave();
  }
  absl::Status Barrier() override { return Leave(); }
  absl::Status Send(int to, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(meeting_.mutex());
    t_sent += std::ssize(bytes);
    meeting_.Mailbox(rank_, to).emplace_back(bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Poll(int from) override {
    const std::lock_guard lock(meeting_.mutex());
    const std::deque<Meeting::Message>& box = meeting_.Mailbox(from, rank_);
    return box.empty() ? 0 : std::ssize(box.front());
  }
  absl::Status Receive(int from, std::span<std::byte> bytes) override {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (*Poll(from) == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    const std::lock_guard lock(meeting_.mutex());
    std::deque<Meeting::Message>& box = meeting_.Mailbox(from, rank_);
    if (box.empty()) return RuntimeError("a thread is missing");
    const Meeting::Message message = std::move(box.front());
    box.pop_front();
    if (message.size() != bytes.size()) return RuntimeError("a message of another size");
    std::ranges::copy(message, bytes.begin());
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Fabric>> Group(int first, int n) override {
    return std::make_unique<ThreadRank>(meeting_.Part(first, n), rank_ - first);
  }

 private:
  // What was given is read by now.
  absl::Status Leave() {
    return meeting_.Wait() ? absl::OkStatus() : RuntimeError("a thread is missing");
  }

  Meeting& meeting_;
  const int rank_;
};

inline constexpr PluginDescriptor kThreadRanks =
    FabricPlugin<ThreadRank::Create>("threads", "1.0.0", "ranks that are threads", {});

// Calls run(rank) on a thread for each rank. Returns the bytes that were given aside, of all ranks.
template <typename Run>
int64_t OnRanks(int size, Run&& run) {
  Meeting meeting(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      t_rank = {&meeting, rank};
      run(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return meeting.n_aside();
}

}  // namespace ng::test

#endif  // NG_TESTS_PLUGINS_FABRIC_THREAD_RANKS_H_
