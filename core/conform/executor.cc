#include "ng/conform/executor.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ng::conform {
namespace {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int worker = 0;
};

// Ranges of [0, n_items), one for each worker; the first is twice as long as the others. Workers
// and the order in which they begin turn with `turn`.
std::vector<Range> Split(int64_t n_items, int threads, uint64_t turn) {
  std::vector<Range> ranges;
  const int64_t each = n_items / (threads + 1);
  int64_t begin = 0;
  for (int i = 0; i < threads; ++i) {
    const int64_t length = i + 1 == threads ? n_items - begin : each * (i == 0 ? 2 : 1);
    const auto worker = static_cast<int>((turn + static_cast<uint64_t>(i)) % threads);
    if (length > 0) ranges.push_back({begin, begin + length, worker});
    begin += length;
  }
  std::rotate(ranges.begin(), ranges.begin() + static_cast<int64_t>(turn % ranges.size()),
              ranges.end());
  return ranges;
}

// The status of a task's calls; that of the first exception, if one was thrown.
class Failures {
 public:
  void Call(Executor::Task task, void* context, const Range& range) {
    try {
      task(context, range.begin, range.end, range.worker);
    } catch (const std::exception& error) {
      Add(error.what());
    } catch (...) {
      Add("no std::exception");
    }
  }
  absl::Status status() const { return status_; }

 private:
  void Add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = RuntimeError("exception in a worker: " + what);
  }
  std::mutex mutex_;
  absl::Status status_;
};

}  // namespace

absl::Status UnevenExecutor::Run(int64_t n_items, Task task, void* context) {
  if (busy_.exchange(true)) {
    nested_ = true;
    return RuntimeError("a parallel region was begun inside another one");
  }
  Failures failures;
  if (n_items > 0 && threads_ == 1) {
    failures.Call(task, context, {0, n_items, 0});
  } else if (n_items > 0) {
    std::vector<std::thread> threads;
    for (const Range& range : Split(n_items, threads_, n_regions_++)) {
      threads.emplace_back([&, range] { failures.Call(task, context, range); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  busy_ = false;
  if (nested_) return RuntimeError("a parallel region was begun inside another one");
  return failures.status();
}

}  // namespace ng::conform
