// Rows that matmuls read, on their way to another machine. Its level may be another one of the same
// arithmetic, and read the same numbers in another layout: what is sent is the layout that all can
// make.
#ifndef NG_CORE_KERNELS_SENT_ROWS_H_
#define NG_CORE_KERNELS_SENT_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "core/kernels/kernel_table.h"

namespace ng {

// As what rows of a type are sent.
constexpr InputType SentAs(InputType type) {
  return type == InputType::kInt8Split ? InputType::kInt8 : type;
}

// Floats that hold k inputs when they are sent.
constexpr int64_t SentFloats(InputType type, int64_t k) {
  return InputRowBytes(SentAs(type), k) / int64_t{sizeof(float)};
}

// Inputs that stand together: a row that is cut between such groups has the same bits.
constexpr int64_t GroupInputs(InputType type) {
  if (IsBytes(type)) return kQuantBlock;
  return type == InputType::kBf16 ? 2 : 1;
}

// Rounds k inputs as the matmuls of weights `w` read them, to what is sent. room: for the row as
// these read it. REQUIRES: kernels.prepare of w is not null.
void RoundSent(const KernelTable& kernels, WeightType w, const float* x, int64_t k, std::byte* room,
               std::byte* sent);

// What was sent of k inputs, as the matmuls read it.
void UnpackSent(InputType type, const std::byte* sent, int64_t k, std::byte* row);

}  // namespace ng

#endif  // NG_CORE_KERNELS_SENT_ROWS_H_
