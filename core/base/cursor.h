// Cursor: reads little-endian values from untrusted bytes, never past their end.
//
// Every reader of a binary format goes through it. A read that does not fit returns nullopt and
// leaves the position where it was, so the caller can name the offset. Borrows the bytes.
#ifndef NG_CORE_BASE_CURSOR_H_
#define NG_CORE_BASE_CURSOR_H_

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ng {

class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }
  bool at_end() const { return remaining() == 0; }

  std::optional<uint8_t> U8() { return LittleEndian<uint8_t>(); }
  std::optional<uint16_t> U16() { return LittleEndian<uint16_t>(); }
  std::optional<uint32_t> U32() { return LittleEndian<uint32_t>(); }
  std::optional<uint64_t> U64() { return LittleEndian<uint64_t>(); }

  std::optional<float> F32() {
    const std::optional<uint32_t> bits = U32();
    if (!bits) return std::nullopt;
    return std::bit_cast<float>(*bits);
  }

  // The next `count` bytes, borrowed.
  std::optional<std::string_view> Bytes(uint64_t count) {
    if (count > remaining()) return std::nullopt;
    const std::string_view taken = bytes_.substr(position_, count);
    position_ += count;
    return taken;
  }

  // A 64-bit length, then that many bytes: GGUF's strings.
  std::optional<std::string_view> LengthPrefixedString() {
    const size_t start = position_;
    const std::optional<uint64_t> length = U64();
    if (!length) return std::nullopt;
    const std::optional<std::string_view> text = Bytes(*length);
    if (!text) position_ = start;
    return text;
  }

  // A base-128 number of at most 64 bits: protobuf's integers. More than 64 bits are a failure.
  std::optional<uint64_t> Varint() {
    constexpr int kLongest = 10;  // ceil(64 / 7)
    uint64_t value = 0;
    for (int i = 0; i < kLongest && static_cast<size_t>(i) < remaining(); ++i) {
      const auto byte = static_cast<uint8_t>(bytes_[position_ + i]);
      if (i == kLongest - 1 && byte > 1) return std::nullopt;
      value |= static_cast<uint64_t>(byte & 0x7F) << (7 * i);
      if (byte < 0x80) {
        position_ += i + 1;
        return value;
      }
    }
    return std::nullopt;
  }

 private:
  template <std::unsigned_integral T>
  std::optional<T> LittleEndian() {
    const std::optional<std::string_view> raw = Bytes(sizeof(T));
    if (!raw) return std::nullopt;
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<T>(static_cast<T>(static_cast<uint8_t>((*raw)[i])) << (8 * i));
    }
    return value;
  }

  std::string_view bytes_;
  size_t position_ = 0;
};

}  // namespace ng

#endif  // NG_CORE_BASE_CURSOR_H_
