// What is known of a sequence as bytes: one walk over it counts them, writes them or reads them.
#ifndef NG_PLUGINS_CACHE_BUDGET_SEQUENCE_IMAGE_H_
#define NG_PLUGINS_CACHE_BUDGET_SEQUENCE_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace ng {

class SequenceImage {
 public:
  static SequenceImage Counting() { return {}; }
  static SequenceImage Writing(std::span<std::byte> to) {
    SequenceImage image;
    image.to_ = to;
    return image;
  }
  static SequenceImage Reading(std::span<const std::byte> from) {
    SequenceImage image;
    image.from_ = from;
    image.reads_ = true;
    return image;
  }

  bool reads() const { return reads_; }
  // Bytes that have been walked over.
  int64_t size() const { return size_; }
  // False: what was read is none of a sequence. Nothing more is read then.
  bool sound() const { return sound_; }
  // All of what was given has been walked over, and it was sound.
  bool done() const {
    return sound_ && size_ == std::ssize(reads_ ? from_ : std::span<const std::byte>(to_));
  }
  void Must(bool holds) { sound_ = sound_ && holds; }

  // data: [n_bytes]
  void Bytes(void* data, int64_t n_bytes) {
    const auto at = static_cast<size_t>(size_);
    const auto n = static_cast<size_t>(n_bytes);
    if (reads_) {
      Must(n_bytes >= 0 && n <= from_.size() - at);
      if (!sound_) return;
      if (n > 0) std::memcpy(data, from_.data() + at, n);
    } else if (!to_.empty()) {
      Must(n <= to_.size() - at);
      if (!sound_) return;
      if (n > 0) std::memcpy(to_.data() + at, data, n);
    }
    size_ += n_bytes;
  }

  // What is read must be in [least, most], else it stays as it is.
  void Number(int64_t& value, int64_t least, int64_t most) {
    int64_t found = value;
    Bytes(&found, sizeof(found));
    if (!reads_) return;
    Must(found >= least && found <= most);
    if (sound_) value = found;
  }

 private:
  std::span<std::byte> to_ = {};
  std::span<const std::byte> from_ = {};
  bool reads_ = false;
  bool sound_ = true;
  int64_t size_ = 0;
};

}  // namespace ng

#endif  // NG_PLUGINS_CACHE_BUDGET_SEQUENCE_IMAGE_H_
