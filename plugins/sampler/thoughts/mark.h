// A mark of bytes and tokens, and how much of it is at the end of what was read.
#ifndef NG_PLUGINS_SAMPLER_THOUGHTS_MARK_H_
#define NG_PLUGINS_SAMPLER_THOUGHTS_MARK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ng {

// A symbol is a byte, or kFirstToken + a token that counts as a whole.
class Mark {
 public:
  static constexpr char32_t kFirstToken = 0x100;
  static constexpr size_t kLongest = 255;

  // REQUIRES: 1 to kLongest symbols.
  explicit Mark(std::u32string symbols) : symbols_(std::move(symbols)), back_(symbols_.size()) {
    for (size_t i = 1; i < symbols_.size(); ++i) back_[i] = Next(back_[i - 1], symbols_[i]);
  }

  bool begins_with_token() const { return symbols_.front() >= kFirstToken; }
  bool IsWhole(uint8_t at) const { return at == symbols_.size(); }
  // How much is there behind one more symbol: the longest beginning of the mark that it ends.
  uint8_t Next(uint8_t at, char32_t symbol) const {
    if (IsWhole(at)) at = back_[at - 1];
    while (at > 0 && symbols_[at] != symbol) at = back_[at - 1];
    return symbols_[at] == symbol ? static_cast<uint8_t>(at + 1) : at;
  }

 private:
  std::u32string symbols_;
  std::vector<uint8_t> back_;  // [symbol] How much is there where the next one does not come
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_THOUGHTS_MARK_H_
