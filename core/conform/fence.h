// Memory lent to a part to see what the part does with it: every float is filled with a value that
// nobody computes, and a fence of such values stands on both sides.
#ifndef NG_CORE_CONFORM_FENCE_H_
#define NG_CORE_CONFORM_FENCE_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ng::conform {

class Fenced {
 public:
  // So many floats, 64-byte aligned, until the next call.
  std::span<float> Lend(int64_t n_floats) {
    const auto n = static_cast<size_t>(n_floats);
    memory_.assign(n + 3 * kFence, std::bit_cast<float>(kUnwritten));
    void* begin = memory_.data() + kFence;
    size_t space = (n + kFence) * sizeof(float);
    lent_ = {static_cast<float*>(std::align(64, n * sizeof(float), begin, space)), n};
    return lent_;
  }

  std::span<const float> lent() const { return lent_; }

  // "before" or "behind" when the fence on that side has been written to, else "".
  std::string Trespass() const {
    const std::span<const float> all = memory_;
    const auto begin = static_cast<size_t>(lent_.data() - all.data());
    if (!std::ranges::all_of(all.first(begin), IsUnwritten)) return "before";
    return std::ranges::all_of(all.subspan(begin + lent_.size()), IsUnwritten) ? "" : "behind";
  }

  // The index of the first float that nobody wrote, or -1.
  int64_t FindUnwritten() const {
    const auto found = std::ranges::find_if(lent_, IsUnwritten);
    return found == lent_.end() ? -1 : found - lent_.begin();
  }

 private:
  static constexpr size_t kFence = 64;
  static constexpr uint32_t kUnwritten = 0x7FC0BEEF;  // a NaN

  static bool IsUnwritten(float x) { return std::bit_cast<uint32_t>(x) == kUnwritten; }

  std::vector<float> memory_;
  std::span<float> lent_;
};

}  // namespace ng::conform

#endif  // NG_CORE_CONFORM_FENCE_H_
