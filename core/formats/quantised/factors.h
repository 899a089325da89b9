// Scales and zeros from the tensors that hold them, and the tables of values of codes.
#ifndef NG_CORE_FORMATS_QUANTISED_FACTORS_H_
#define NG_CORE_FORMATS_QUANTISED_FACTORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/formats/quantised/form_finder.h"
#include "core/formats/quantised/matrix_form.h"

namespace ng {

// What each byte of a float of 8 bits stands for. [256]
std::span<const float> Float8E4m3Values();
std::span<const float> Float8E5m2Values();
// The values of a float of 4 bits, E2M1. [16]
std::span<const float> Float4E2m1Values();

// All numbers of a tensor as f32. Errors: of the file. REQUIRES: floats, or signed integers or
// bytes.
absl::StatusOr<std::vector<float>> NumbersOf(const TensorSource& source, const TensorInfo& tensor);
// The same of bytes that are powers of two, each less 127.
absl::StatusOr<std::vector<float>> PowersOf(const TensorSource& source, const TensorInfo& tensor);
// All bytes of a tensor.
absl::StatusOr<std::vector<std::byte>> BytesOf(const TensorSource& source,
                                               const TensorInfo& tensor);
absl::StatusOr<std::vector<int32_t>> IntegersOf(const TensorSource& source,
                                                const TensorInfo& tensor);

// Factors that are the numbers of a tensor. The tensor is borrowed.
Factors FactorsOf(const TensorInfo& tensor);
inline Factors ConstantFactor(float value) { return {.constant = value}; }

// Rows and inputs that share a factor.
struct Sharing {
  int64_t rows = 1;
  int64_t inputs = 0;  // 0: all
};

// A matrix's factors by the shape of their tensor: one for all, [rows] or [rows, 1], or for each
// block of rows and inputs [blocks of rows, blocks of inputs]. Sets the group. Errors: any other
// shape or type.
struct MatrixSize {
  int64_t rows = 0;
  int64_t inputs = 0;
};
absl::Status PlaceFactors(const FormFinder& finder, const TensorInfo& tensor, MatrixSize size,
                          Sharing sharing, Factors* factors, int64_t* group);

// Of each input its group, empty where they are in order. Errors: one that is not there.
absl::StatusOr<std::vector<int32_t>> ReadGroupIndex(const FormFinder& finder,
                                                    const TensorInfo& index, int64_t group,
                                                    int64_t n_groups);

}  // namespace ng

#endif  // NG_CORE_FORMATS_QUANTISED_FACTORS_H_
