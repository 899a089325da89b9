// The codes and factors of rows of a quantised matrix.
#ifndef NG_CORE_FORMATS_QUANTISED_ROW_DECODER_H_
#define NG_CORE_FORMATS_QUANTISED_ROW_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/formats/quantised/matrix_form.h"
#include "core/formats/tensor_source.h"
#include "ng/status.h"

namespace ng {

// A matrix with what is read of it once: its factors, and its codes where those of a row lie all
// over their tensor. Any thread may read rows.
class RowDecoder {
 public:
  // Errors: of the file; ModelFileError where a part has values that cannot be. `form` is borrowed.
  static absl::StatusOr<RowDecoder> Load(const MatrixForm& form, const TensorSource& source);
  // The bytes that it keeps.
  static int64_t Bytes(const MatrixForm& form);

  // The codes of rows that follow each other, and how they become values.
  struct Rows {
    int64_t first = 0;
    int64_t n = 0;
    std::vector<std::byte> stored = {};  // of kRows: their bytes
  };
  absl::StatusOr<Rows> Read(const TensorSource& source, int64_t first, int64_t n) const;
  // codes: [k]
  void CodesOf(const Rows& rows, int64_t row, uint8_t* codes) const;
  // values: [k]; codes: [k], of the row
  void ValuesOf(int64_t row, const uint8_t* codes, float* values) const;

  float scale(int64_t row, int64_t group) const { return scale_of_whole(row, group) * whole(); }
  // What a scale is of the factor of the whole matrix.
  float scale_of_whole(int64_t row, int64_t group) const {
    return At(form_->scales, scales_, row, group);
  }
  float whole() const { return At(form_->whole, whole_, 0, 0); }
  float zero(int64_t row, int64_t group) const { return At(form_->zeros, zeros_, row, group); }
  float bias(int64_t row, int64_t group) const { return At(form_->biases, biases_, row, group); }

 private:
  explicit RowDecoder(const MatrixForm& form) : form_(&form) {}
  static float At(const Factors& factors, const std::vector<float>& values, int64_t row,
                  int64_t group) {
    return values.empty() ? factors.constant
                          : values[static_cast<size_t>(factors.Index(row, group))];
  }
  int64_t RowBytes() const { return form_->codes.tensor->n_bytes / form_->n_rows(); }

  const MatrixForm* form_;
  std::vector<float> scales_;
  std::vector<float> whole_;
  std::vector<float> zeros_;
  std::vector<float> biases_;
  std::vector<std::byte> codes_;  // all, but of kRows
};

// Bits [first, first + bits) of a stream, the lowest first. REQUIRES: bits <= 8; the bytes are
// there.
inline uint8_t BitsAt(const std::byte* stream, int64_t first, int bits) {
  const std::byte* const at = stream + first / 8;
  const auto shift = static_cast<int>(first % 8);
  auto word = std::to_integer<uint32_t>(*at);
  if (shift + bits > 8) word |= std::to_integer<uint32_t>(at[1]) << 8U;
  return static_cast<uint8_t>(word >> shift & ((1U << bits) - 1));
}

}  // namespace ng

#endif  // NG_CORE_FORMATS_QUANTISED_ROW_DECODER_H_
