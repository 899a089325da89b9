// Where the rows of a stored tensor lie in a packed matrix or a vector.
#ifndef NG_CORE_MODEL_WEIGHTS_PLACE_H_
#define NG_CORE_MODEL_WEIGHTS_PLACE_H_

#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/kernels/packed_matrix.h"
#include "core/model/weights/rank_split.h"

namespace ng {

// How the rows of a tensor lie in their matrix or vector.
enum class RowOrder {
  kPlain,
  kInterleaved,  // 16 at a time, into every second 16
  kTurns,        // two tensors in one, a row of each in turn: interleaved likewise
  kHalves,       // two tensors in one, each of `unit` rows: interleaved with each other
  // Of the first n_paired rows, in each head of `unit`, rows 2i and 2i + 1 become i and
  // i + unit / 2.
  kPaired,
  kGroups,  // several tensors in one: some rows of each in turn
  kTaps,    // of a vector [n, unit]: as [unit, n]
};

// Rows of one tensor in each group of kGroups; they lie one group after the other from `begin` on.
struct Segment {
  int64_t rows = 0;
  int64_t begin = 0;
};

// Where a tensor goes: into the rows from `first` on of a matrix, or of a vector of `size` values.
// All numbers but those of RowOf are of the whole matrix or vector, also where a rank holds a part.
struct Place {
  PackedMatrix* matrix = nullptr;
  std::vector<float>* vector = nullptr;
  int64_t first = 0;
  int64_t size = 0;
  RowOrder order = RowOrder::kPlain;
  int64_t unit = 0;
  int64_t n_paired = std::numeric_limits<int64_t>::max();
  std::array<Segment, 4> segments = {};  // of a group, in turn; those behind the last are empty
  float offset = 0.0F;                   // added to the values of a vector
  std::vector<HeldRows> held = {};       // by this rank; empty: all

  // Where a row of the tensor lies; -1: it is not held.
  int64_t RowOf(int64_t row) const;
  // How many of the rows [row, end) lie side by side. REQUIRES: the first is held.
  int64_t RunOf(int64_t row, int64_t end) const;
  // The first rows in [row, end) that are held: [first, second).
  std::pair<int64_t, int64_t> NextHeld(int64_t row, int64_t end) const;
  // Values of the vector that are held.
  int64_t held_size() const;
  // What its matrix holds it as.
  WeightType type() const;

 private:
  int64_t WholeRowOf(int64_t row) const;
  int64_t WholeRunOf(int64_t row, int64_t end) const;
};

}  // namespace ng

#endif  // NG_CORE_MODEL_WEIGHTS_PLACE_H_
