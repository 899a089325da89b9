#include "core/runtime/engine/sampler_maker.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/engine/engine_state.h"

namespace ng {
namespace {

size_t SettingsBytes(const SamplerMaker::Job& job) {
  size_t n = 0;
  for (const std::string& setting : job.settings) n += setting.size();
  return n;
}

}  // namespace

SamplerMaker::SamplerMaker(RequestSamplers& samplers, std::function<void()> made)
    : samplers_(samplers), made_(std::move(made)) {}

absl::Status SamplerMaker::Start() {
  try {
    thread_ = std::thread([this] { Work(); });
  } catch (const std::system_error& error) {
    return RuntimeError(absl::StrCat("the system gives no thread: ", error.what()));
  }
  return absl::OkStatus();
}

void SamplerMaker::Allow(int64_t n) {
  const std::lock_guard lock(mutex_);
  allowed_ = n;
  changed_.notify_all();
}

void SamplerMaker::Ask(int64_t id, std::vector<std::string> settings) {
  Jobs one;
  one.push_back({.id = id,
                 .settings = std::move(settings),
                 .sampler = RequestSampler(),
                 .stop = std::make_shared<std::atomic<bool>>(false)});
  const size_t n_bytes = SettingsBytes(one.front());
  const std::lock_guard lock(mutex_);
  const auto longer = std::ranges::find_if(
      asked_, [&](const Job& other) { return SettingsBytes(other) > n_bytes; });
  asked_.splice(longer, one);
  changed_.notify_all();
}

void SamplerMaker::Drop(int64_t id) {
  Jobs dropped;  // is let go behind the lock
  const std::lock_guard lock(mutex_);
  for (Jobs* const jobs : {&asked_, &done_}) {
    const auto found = std::ranges::find(*jobs, id, &Job::id);
    if (found != jobs->end()) return dropped.splice(dropped.end(), *jobs, found);
  }
  if (making_.empty() || making_.front().id != id) return;
  making_.front().dropped = true;
  *making_.front().stop = true;
}

SamplerMaker::Jobs SamplerMaker::Take() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
  return std::exchange(done_, {});
}

void SamplerMaker::Stop() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    if (!making_.empty()) *making_.front().stop = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void SamplerMaker::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock,
                  [this] { return ends_ || (!asked_.empty() && std::ssize(done_) < allowed_); });
    if (ends_) return;
    making_.splice(making_.end(), asked_, asked_.begin());
    Job& job = making_.front();
    lock.unlock();
    job.sampler = GuardedReading([&] { return samplers_.For(job.settings, job.stop); });
    lock.lock();
    Jobs made = std::exchange(making_, {});
    if (!made.front().dropped) done_.splice(done_.end(), made);
    lock.unlock();
    made.clear();
    made_();
    lock.lock();
  }
}

}  // namespace ng
