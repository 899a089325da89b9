// Memory that a guard lends to a plugin to see what the plugin does with it: every float is filled
// with a value that nobody computes, and a fence of such values stands on both sides.
#ifndef NG_CORE_PLUGIN_FENCED_FLOATS_H_
#define NG_CORE_PLUGIN_FENCED_FLOATS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ng {

// Fills with a NaN that stands for "nobody wrote this".
void FillUnwritten(std::span<float> floats);
// The index of the first float that holds it, or -1.
int64_t FindUnwritten(std::span<const float> floats);

class FencedFloats {
 public:
  // So many floats, unwritten, 64-byte aligned. Valid until the next call; allocates only where
  // there have not been as many before.
  std::span<float> Lend(int64_t n_floats);

  // "before" or "behind" when the fence on that side of what was lent last has been written to,
  // else "".
  std::string Trespass() const;

 private:
  std::vector<float> memory_;
  std::span<float> before_;
  std::span<float> behind_;
};

}  // namespace ng

#endif  // NG_CORE_PLUGIN_FENCED_FLOATS_H_
