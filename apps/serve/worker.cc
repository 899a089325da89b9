#include "apps/serve/worker.h"

#include <utility>

namespace ng::serve {

Worker::Worker() : thread_([this] { Run(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Worker::Do(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
}

bool Worker::busy() const {
  const std::lock_guard lock(mutex_);
  return works_ || !waiting_.empty();
}

void Worker::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (ends_) return;
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    works_ = true;
    lock.unlock();
    work();
    lock.lock();
    works_ = false;
  }
}

}  // namespace ng::serve
