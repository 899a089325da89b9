// The loops for AVX-512, with and without its dot products: 32 registers of 16 lanes.
#include <cstdint>

#include "apps/bench/loops.h"
#include "ng/vec16.h"

NG_BEGIN_TARGET_AVX512
#include "apps/bench/loops-inl.h"

namespace ng::bench {
namespace {

constexpr int kSums = 16;

// As in loops_avx2.cc.
float BytesDot(int64_t n_steps) {
  const __m512i ones = _mm512_set1_epi16(1);
  __m512i a = _mm512_set1_epi8(1);
  __m512i sum[kSums];
#pragma GCC unroll 16
  for (__m512i& s : sum) s = _mm512_setzero_si512();
  for (int64_t step = 0; step < n_steps; ++step) {
#pragma GCC unroll 16
    for (__m512i& s : sum) {
      asm("" : "+v"(a));
      s = _mm512_add_epi32(s, _mm512_madd_epi16(_mm512_maddubs_epi16(a, a), ones));
    }
  }
  for (int i = 1; i < kSums; ++i) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
  return static_cast<float>(_mm512_cvtsi512_si32(sum[0]));
}

}  // namespace

Loops Avx512Loops() {
  Loops loops = MakeLoops<avx512::Vec16, kSums>();
  loops.int8 = {BytesDot, int64_t{kSums} * 64 * 2};
  return loops;
}

}  // namespace ng::bench
NG_END_TARGET

NG_BEGIN_TARGET_AVX512_VNNI
namespace ng::bench {
namespace {

float ByteQuadsDot(int64_t n_steps) {
  const __m512i a = _mm512_set1_epi8(1);
  __m512i sum[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sum[i] = _mm512_set1_epi32(i);  // alike, they would be one
  for (int64_t step = 0; step < n_steps; ++step) {
#pragma GCC unroll 16
    for (__m512i& s : sum) s = _mm512_dpbusd_epi32(s, a, a);
  }
  for (int i = 1; i < kSums; ++i) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
  return static_cast<float>(_mm512_cvtsi512_si32(sum[0]));
}

}  // namespace

ComputeLoop Avx512VnniInt8Loop() { return {ByteQuadsDot, int64_t{kSums} * 64 * 2}; }

}  // namespace ng::bench
NG_END_TARGET

NG_BEGIN_TARGET_AVX512_BF16
namespace ng::bench {
namespace {

float Bf16PairsDot(int64_t n_steps) {
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5F), _mm512_set1_ps(0.5F));
  __m512 sum[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t step = 0; step < n_steps; ++step) {
#pragma GCC unroll 16
    for (__m512& s : sum) s = _mm512_dpbf16_ps(s, a, a);
  }
  for (int i = 1; i < kSums; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  return _mm512_cvtss_f32(sum[0]);
}

}  // namespace

ComputeLoop Avx512Bf16Loop() { return {Bf16PairsDot, int64_t{kSums} * 32 * 2}; }

}  // namespace ng::bench
NG_END_TARGET
