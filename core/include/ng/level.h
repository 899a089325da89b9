// For a source that is compiled once for each instruction set level, which CMake is asked for in
// one line: ng_add_plugin(attention mine mine.cc LEVELS mine_kernels.cc).
//
//   // mine_kernels.h
//   struct Kernels {
//     float (*dot)(const float* a, const float* b, int n);
//     template <ng::IsaLevel>
//     static const Kernels& At();  // one for each level
//   };
//
//   // mine_kernels.cc
//   #include "ng/level.h"          // and everything else that the kernels include
//   NG_BEGIN_LEVEL
//   namespace {
//   using V = ng::level::Vec16;    // 16 lanes of this level (ng/vec16.h); ng::Exp<V> and alike
//   float Dot(const float* a, const float* b, int n) { ... }
//   }  // namespace
//   template <>
//   const Kernels& Kernels::At<ng::kLevel>() {
//     static constexpr Kernels kKernels = {Dot};
//     return kKernels;
//   }
//   NG_END_LEVEL
//
//   // mine.cc
//   const Kernels& kernels = ng::KernelsFor<Kernels>(context.isa);
//
// Between the two macros all code is compiled for the level, so nothing is included there: an
// inline function of a library, compiled for AVX-512, could be taken for the whole program's. Own
// functions belong into an unnamed namespace for the same reason.
#ifndef NG_LEVEL_H_
#define NG_LEVEL_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ng/isa.h"
#include "ng/vec16.h"

// CMake defines one of these.
#if defined(NG_LEVEL_SCALAR)
#define NG_BEGIN_LEVEL
#define NG_END_LEVEL
#define NG_LEVEL_NAME_ kScalar
#define NG_LEVEL_LANES_ scalar
#elif defined(NG_LEVEL_AVX2)
#define NG_BEGIN_LEVEL NG_BEGIN_TARGET_AVX2
#define NG_END_LEVEL NG_END_TARGET
#define NG_LEVEL_NAME_ kAvx2
#define NG_LEVEL_LANES_ avx2
#elif defined(NG_LEVEL_AVX_VNNI)
#define NG_BEGIN_LEVEL NG_BEGIN_TARGET_AVX_VNNI
#define NG_END_LEVEL NG_END_TARGET
#define NG_LEVEL_NAME_ kAvxVnni
#define NG_LEVEL_LANES_ avx2
#elif defined(NG_LEVEL_AVX512)
#define NG_BEGIN_LEVEL NG_BEGIN_TARGET_AVX512
#define NG_END_LEVEL NG_END_TARGET
#define NG_LEVEL_NAME_ kAvx512
#define NG_LEVEL_LANES_ avx512
#elif defined(NG_LEVEL_AVX512_VNNI)
#define NG_BEGIN_LEVEL NG_BEGIN_TARGET_AVX512_VNNI
#define NG_END_LEVEL NG_END_TARGET
#define NG_LEVEL_NAME_ kAvx512Vnni
#define NG_LEVEL_LANES_ avx512
#elif defined(NG_LEVEL_AVX512_BF16)
#define NG_BEGIN_LEVEL NG_BEGIN_TARGET_AVX512_BF16
#define NG_END_LEVEL NG_END_TARGET
#define NG_LEVEL_NAME_ kAvx512Bf16
#define NG_LEVEL_LANES_ avx512
#else
#error "name this source behind LEVELS in ng_add_plugin, which compiles it once for each level"
#endif

namespace ng {
namespace level = NG_LEVEL_LANES_;
constexpr IsaLevel kLevel = IsaLevel::NG_LEVEL_NAME_;
}  // namespace ng

NG_BEGIN_LEVEL
#include "ng/vec_math-inl.h"
NG_END_LEVEL

#endif  // NG_LEVEL_H_
