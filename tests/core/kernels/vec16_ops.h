// Every operation of a level's Vec16 on given inputs, so that one test can compare the levels. Each
// level is compiled in a file of its own, as kernels are.
#ifndef NG_TESTS_CORE_KERNELS_VEC16_OPS_H_
#define NG_TESTS_CORE_KERNELS_VEC16_OPS_H_

#include <cstdint>

#include "ng/isa.h"

namespace ng {

struct Vec16Inputs {
  float a[16];
  float b[16];
  float c[16];
  float whole[16];       // whole numbers in [-126, 127], or NaN where b is NaN
  uint16_t halves[32];   // any bits
  uint8_t bytes[16];     // any
  float table[256];      // for Lookup
  int n = 0;             // lanes for the masked forms, 0 to 16
  const float* partial;  // [n]
};

struct Vec16Results {
  float set[16], load[16], load_first[16], store_first[16], keep_first[16];
  float bf16[16], f16[16], bf16_even[16], bf16_odd[16], f16_even[16], f16_odd[16];
  float add[16], sub[16], mul[16], div[16], max[16], min[16], mul_add[16];
  float round[16], scale2[16], select_less[16], exp[16], exp_of_non_positive[16];
  float i8[16], u8[16], lookup[16];
  float set_pair[16], keep_even[16], keep_odd[16], tanh[16], add_pairs[16], select_bits[16];
  float max_magnitude[16], exp_of_several[16];
  uint32_t less_bits;
  float sum, max_lane, max_magnitude_lane;
};

// REQUIRES: the CPU supports the level.
void EvaluateVec16(IsaLevel level, const Vec16Inputs& in, Vec16Results* out);

void EvaluateScalarVec16(const Vec16Inputs& in, Vec16Results* out);
void EvaluateAvx2Vec16(const Vec16Inputs& in, Vec16Results* out);
void EvaluateAvx512Vec16(const Vec16Inputs& in, Vec16Results* out);

}  // namespace ng

#endif  // NG_TESTS_CORE_KERNELS_VEC16_OPS_H_
