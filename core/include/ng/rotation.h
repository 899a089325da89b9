// Rotation: how a model turns queries and keys by their position (rotary position embedding, Su et
// al. 2021), for who needs to know where a query will point that has not come yet.
#ifndef NG_ROTATION_H_
#define NG_ROTATION_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#pragma GCC visibility push(default)
namespace ng {

// At position p pair i of a head's dimensions turns by p * angles[i], and what turns is then
// multiplied by the magnitude. Dimensions that are in no pair stay as they are.
struct Rotation {
  std::span<const double> angles = {};  // [n_pairs]; empty: nothing turns
  bool interleaved = false;  // pair i is dimensions 2 * i and 2 * i + 1, else i and n_pairs + i
  double magnitude = 1.0;

  int64_t First(int64_t pair) const { return interleaved ? 2 * pair : pair; }
  int64_t Second(int64_t pair) const {
    return interleaved ? 2 * pair + 1 : pair + static_cast<int64_t>(angles.size());
  }
};

// The mean of what a rotation does at positions [begin, begin + n): with n = 1 the rotation to one.
class MeanRotation {
 public:
  // The rotation is borrowed. REQUIRES: n > 0.
  MeanRotation(const Rotation& rotation, int64_t begin, int64_t n) : rotation_(rotation) {
    for (const double given : rotation.angles) {
      // Whole turns are none, as positions are whole.
      const double angle = std::remainder(given, 2.0 * std::numbers::pi);
      // Of cosines at n equal steps the sum is n times that in the middle, but for this share.
      const double one = std::sin(angle / 2.0);
      const double all = std::sin(angle * static_cast<double>(n) / 2.0);
      const bool turns = std::fabs(one) * static_cast<double>(n) > 1e-12;
      const double share = turns ? all / (one * static_cast<double>(n)) : 1.0;
      const double middle = angle * (static_cast<double>(begin) + static_cast<double>(n - 1) / 2.0);
      cos_sin_.push_back(Rounded(share * std::cos(middle) * rotation.magnitude));
      cos_sin_.push_back(Rounded(share * std::sin(middle) * rotation.magnitude));
    }
  }

  // Turns a vector whose numbers lie `stride` apart. x: [head_dim]
  void Turn(double* x, int64_t stride = 1) const {
    const auto n_pairs = static_cast<int64_t>(rotation_.angles.size());
    for (int64_t pair = 0; pair < n_pairs; ++pair) {
      double& first = x[rotation_.First(pair) * stride];
      double& second = x[rotation_.Second(pair) * stride];
      const double cos = cos_sin_[static_cast<size_t>(2 * pair)];
      const double sin = cos_sin_[static_cast<size_t>(2 * pair + 1)];
      const double turned = first * cos - second * sin;
      second = second * cos + first * sin;
      first = turned;
    }
  }

 private:
  // C libraries differ in the last bits of a double.
  static double Rounded(double x) { return double{static_cast<float>(x)}; }

  const Rotation rotation_;
  std::vector<double> cos_sin_;  // [n_pairs, 2]
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_ROTATION_H_
