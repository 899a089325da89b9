// Rows of a quantised matrix as the model's files hold them in memory: blocks of integers with
// factors in f32 where its values are on such a grid, so that nothing is rounded a second time; or
// of codes of floats with such factors.
//
// A block of 32, 64 or 128 values: f32 factor, f32 minimum where there are minima, scales where
// there are any, the integers or codes of 4 or 8 bits in order, the lower half of a byte first. A
// value is factor * (integer - zero), or factor * integer - minimum, or factor * (scale * float)
// (kernels/weight_type.h).
#ifndef NG_CORE_FORMATS_QUANTISED_BLOCK_WRITER_H_
#define NG_CORE_FORMATS_QUANTISED_BLOCK_WRITER_H_

#include <cstddef>
#include <cstdint>

#include "core/formats/quantised/matrix_form.h"
#include "core/formats/quantised/row_decoder.h"
#include "core/formats/tensor_source.h"

namespace ng {

// The type that a matrix is given as: blocks of integers or codes; MXFP4; or computed values.
DType GivenAs(const MatrixForm& form, int64_t n_inputs);

// One row in the type of form.info. codes: [k], which are changed
void WriteRow(const MatrixForm& form, const RowDecoder& decoder, int64_t row, uint8_t* codes,
              std::byte* out);

}  // namespace ng

#endif  // NG_CORE_FORMATS_QUANTISED_BLOCK_WRITER_H_
