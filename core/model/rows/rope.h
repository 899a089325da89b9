// Rotary position embedding (Su et al. 2021): how fast each pair of dimensions turns.
#ifndef NG_CORE_MODEL_ROWS_ROPE_H_
#define NG_CORE_MODEL_ROWS_ROPE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/model/spec/model_spec.h"

namespace ng {

// The angle that each pair turns by from one position to the next, [n_dims / 2].
std::vector<double> RopeFrequencies(const RopeSpec& spec);

// Cosines and sines of the positions that were met so far. It only ever grows.
class RopeTable {
 public:
  // `factors`: the frequencies' divisors, empty or [n_dims / 2]. `max_positions`: never more, 0:
  // any number. `reserved`: positions to have room for.
  RopeTable(const RopeSpec& spec, std::span<const float> factors, int64_t max_positions,
            int64_t reserved);

  // Makes At(pos) valid below n_positions.
  void Grow(int64_t n_positions);
  const float* At(int64_t pos) const { return values_.data() + 2 * half_ * pos; }  // [2, half]
  int64_t half() const { return half_; }
  // How it turns, with the factors. [half]
  std::span<const double> frequencies() const { return frequencies_; }

 private:
  int64_t half_;  // pairs
  int64_t max_positions_;
  double magnitude_;
  bool backwards_;
  std::vector<double> frequencies_;  // [half]
  std::vector<float> values_;        // [n_positions, 2, half]: cos, sin
};

}  // namespace ng

#endif  // NG_CORE_MODEL_ROWS_ROPE_H_
