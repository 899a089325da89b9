// Recent: the values of the keys that were asked for last, for what is worked out again and again.
//
// Thread: any.
#ifndef NG_RECENT_H_
#define NG_RECENT_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

namespace ng {

template <class Key, class Value>
class Recent {
 public:
  // Keeps at most so many values, and of large ones as many as have `most_bytes` together.
  Recent(size_t most, size_t most_bytes) : most_(most), most_bytes_(most_bytes) {}

  // Null where it is not kept.
  std::shared_ptr<const Value> Find(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(entries_, key, &Entry::key);
    return found == entries_.end() ? nullptr : found->value;
  }

  // `bytes`: what key and value take, about.
  std::shared_ptr<const Value> Add(Key key, Value value, size_t bytes) {
    auto made = std::make_shared<const Value>(std::move(value));
    if (bytes > most_bytes_) return made;
    const std::lock_guard lock(mutex_);
    bytes_ += bytes;
    entries_.push_back({std::move(key), made, bytes});
    while (entries_.size() > most_ || bytes_ > most_bytes_) {
      bytes_ -= entries_.front().bytes;
      entries_.pop_front();
    }
    return made;
  }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const Value> value;
    size_t bytes;
  };

  const size_t most_;
  const size_t most_bytes_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // the oldest first
  size_t bytes_ = 0;
};

}  // namespace ng

#endif  // NG_RECENT_H_
