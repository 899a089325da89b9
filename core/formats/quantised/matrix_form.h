// How a quantised matrix lies in a file, as plain data: which tensors hold its codes and factors,
// and in which order. A format fills it in (form_finder.h); QuantisedSource reads by it.
//
// The value of output `row` and input `k`, whose code is c and whose group of inputs is g:
//   (value(c) - zero[row, g]) * scale[row, g] + bias[row, g]
// in f32, in this order. value(c) is c itself, or a number of a table. Where scales are numbers of
// E4M3 that a factor of the whole matrix multiplies, scale is the product.
#ifndef NG_CORE_FORMATS_QUANTISED_MATRIX_FORM_H_
#define NG_CORE_FORMATS_QUANTISED_MATRIX_FORM_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

// The order of codes in their tensor.
enum class CodeOrder : int32_t {
  kRows,     // row by row, each a stream of bits, the lowest first
  kColumns,  // [words of inputs, rows]: each row is a stream of bits in a column of words
  kEights,   // [inputs, rows / 8]: 4 bits of 8 rows in a word, in the order of kEightsOrder
  kPlanes    // the first rows in some bits of each element, the next ones in others
};

// Of a word of kEights: which of 8 rows each 4 bits, from the lowest on, belong to.
inline constexpr int kEightsOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};

struct Codes {
  const TensorInfo* tensor = nullptr;
  CodeOrder order = CodeOrder::kRows;
  int bits = 0;              // of a code, 1 to 8
  bool is_signed = false;    // two's complement: half of the range is added to make it a code
  bool upper_first = false;  // of kRows with 4 bits: the upper half of a byte is the first of two
  int per_word = 0;          // of kRows: a word of 32 bits has so many and unused bits; 0: no word
  // Of kPlanes: elements of a plane, bytes of each, how far the first plane is shifted up, and how
  // much farther the next one is.
  int64_t plane_elements = 0;
  int element_bytes = 1;
  int first_shift = 0;
  int next_shift = 0;
};

// One of the factors of a matrix: a list of numbers, and where in it that of a row and a group is.
// Without a reader it is `constant` everywhere.
struct Factors {
  std::function<absl::StatusOr<std::vector<float>>(const TensorSource& source)> read = nullptr;
  float constant = 0.0F;
  int64_t rows_per = 1;                   // neighbouring rows that share
  int64_t rows_cycle = int64_t{1} << 62;  // rows after which they begin again
  int64_t row_stride = 0;
  int64_t group_stride = 0;

  int64_t Index(int64_t row, int64_t group) const {
    return row % rows_cycle / rows_per * row_stride + group * group_stride;
  }
};

struct MatrixForm {
  TensorInfo info;  // the matrix as the model sees it
  Codes codes;
  int64_t group = 0;  // inputs that share factors
  Factors scales;
  Factors whole = {.constant = 1.0F};  // multiplies all scales
  Factors zeros;
  Factors biases;
  std::span<const float> table = {};          // [2^bits]; empty: a code is its value
  std::vector<float> own_table = {};          // in place of it
  std::vector<int32_t> group_of = {};         // [k] of each input, where they are not in order
  std::vector<const TensorInfo*> parts = {};  // all tensors that it is made of
  bool is_mxfp4 = false;                      // given in blocks of MXFP4
  bool is_nvfp4 = false;                      // scales are numbers of E4M3
  std::string what;                           // "int4, groups of 128"

  int64_t n_inputs() const { return info.shape.back(); }
  int64_t n_rows() const { return info.n_elements / n_inputs(); }
  int64_t n_groups_of(int64_t inputs) const { return (inputs + group - 1) / group; }
  int64_t n_groups() const { return n_groups_of(n_inputs()); }
  std::span<const float> values() const { return own_table.empty() ? table : own_table; }
  int64_t n_factors(const Factors& factors) const {
    if (factors.read == nullptr) return 0;
    return factors.Index(std::min(n_rows(), factors.rows_cycle) - 1, n_groups() - 1) + 1;
  }
  int64_t stored_bytes() const {
    int64_t bytes = 0;
    for (const TensorInfo* part : parts) bytes += part->n_bytes;
    return bytes;
  }
};

}  // namespace ng

#endif  // NG_CORE_FORMATS_QUANTISED_MATRIX_FORM_H_
