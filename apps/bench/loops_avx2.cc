// The loops for AVX2 and FMA, and for AVX-VNNI: 16 registers of 8 lanes.
#include <cstdint>

#include "apps/bench/loops.h"
#include "ng/vec16.h"

NG_BEGIN_TARGET_AVX2
#include "apps/bench/loops-inl.h"

namespace ng::bench {
namespace {

// Unsigned bytes times signed bytes, added in quads: two instructions and a sum of words. The
// operands are hidden from the compiler, which would otherwise multiply once for all steps.
float BytesDot(int64_t n_steps) {
  constexpr int kSums = 8;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i a = _mm256_set1_epi8(1);
  __m256i sum[kSums];
#pragma GCC unroll 8
  for (__m256i& s : sum) s = _mm256_setzero_si256();
  for (int64_t step = 0; step < n_steps; ++step) {
#pragma GCC unroll 8
    for (__m256i& s : sum) {
      asm("" : "+x"(a));
      s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(a, a), ones));
    }
  }
  for (int i = 1; i < kSums; ++i) sum[0] = _mm256_add_epi32(sum[0], sum[i]);
  return static_cast<float>(_mm256_cvtsi256_si32(sum[0]));
}

}  // namespace

Loops Avx2Loops() {
  Loops loops = MakeLoops<avx2::Vec16, 5>();
  loops.int8 = {BytesDot, 8 * 32 * 2};
  return loops;
}

}  // namespace ng::bench
NG_END_TARGET

NG_BEGIN_TARGET_AVX_VNNI
namespace ng::bench {
namespace {

float ByteQuadsDot256(int64_t n_steps) {
  constexpr int kSums = 8;
  __m256i a = _mm256_set1_epi8(1);
  __m256i sum[kSums];
#pragma GCC unroll 8
  for (__m256i& s : sum) s = _mm256_setzero_si256();
  for (int64_t step = 0; step < n_steps; ++step) {
#pragma GCC unroll 8
    for (__m256i& s : sum) {
      asm("" : "+x"(a));
      s = _mm256_dpbusd_avx_epi32(s, a, a);
    }
  }
  for (int i = 1; i < kSums; ++i) sum[0] = _mm256_add_epi32(sum[0], sum[i]);
  return static_cast<float>(_mm256_cvtsi256_si32(sum[0]));
}

}  // namespace

ComputeLoop AvxVnniInt8Loop() { return {ByteQuadsDot256, int64_t{8} * 32 * 2}; }

}  // namespace ng::bench
NG_END_TARGET
