// Instruction set levels by name. One level is chosen when the engine opens (run.isa, or NG_ISA
// when run.isa is `auto`) and binds every kernel, those of plugins too.
//
// A level computes in an arithmetic: how operands are rounded and in which order they are added.
// The bit contract holds across the levels of one arithmetic, so that a run, or what was saved of
// it, goes on with the same bits on another CPU. There are two:
//   portable  scalar, avx2, avx_vnni, avx512, avx512_vnni: an f32
//             multiply-add rounds once; products of bytes are added as exact
//             integers
//   bf16_dot  avx512_bf16: as portable, but what bf16 weights and bf16 caches are multiplied with
//             is rounded to bf16 too, and two products are added at a time
// All of it is ng's own but for the C library's functions, in tables of RoPE, routers and the
// backend `reference`. They give the same on all CPUs that have FMA. On one that lacks it, those of
// doubles (exp, pow, cos, ...) may end in another last bit, which rounding to f32 nearly always
// removes.
#ifndef NG_ISA_H_
#define NG_ISA_H_

#include <span>
#include <string>
#include <string_view>

#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

enum class IsaLevel {
  kScalar = 0,      // no instruction beyond the compiler's baseline
  kAvx2 = 1,        // AVX2, FMA, F16C
  kAvxVnni = 2,     // and AVX-VNNI: dot products of bytes
  kAvx512 = 3,      // kAvx2 and AVX-512 F, BW, DQ, VL
  kAvx512Vnni = 4,  // and VNNI: dot products of bytes
  kAvx512Bf16 = 5,  // and BF16: dot products of bf16 pairs
};

// "scalar", "avx2", "avx_vnni", "avx512", "avx512_vnni", "avx512_bf16".
std::string_view IsaName(IsaLevel level);

struct Arithmetic {
  std::string_view name;
  int version;  // raised whenever any bit that a kernel of it gives changes

  std::string ToString() const;  // "portable 1"
};
const Arithmetic& ArithmeticOf(IsaLevel level);

// The levels that this CPU (and its operating system) can run, those with fewer instructions first.
std::span<const IsaLevel> SupportedIsaLevels();

// `name` is "auto" (the NG_ISA environment variable if set, else the fastest supported level, which
// is not avx512_bf16 on CPUs of Intel: they are slow at it) or a level's name. Errors: UsageError
// for an unknown name or a level that this CPU lacks; both list what can be chosen.
absl::StatusOr<IsaLevel> ChooseIsa(std::string_view name);
// Among the levels that `arithmetic` (run.arithmetic) allows: "fastest", any; "portable", those of
// that arithmetic. UsageError also for a level of another one. REQUIRES: one of these two words.
absl::StatusOr<IsaLevel> ChooseIsa(std::string_view name, std::string_view arithmetic);

// The kernels of a level: what Kernels::At<level>() returns, which a source that is compiled once
// for each level defines (ng/level.h).
template <class Kernels>
const Kernels& KernelsFor(IsaLevel level) {
  switch (level) {
    case IsaLevel::kAvx2:
      return Kernels::template At<IsaLevel::kAvx2>();
#if !defined(NG_FEW_LEVELS)  // which ng's own sanitizer build defines
    case IsaLevel::kAvxVnni:
      return Kernels::template At<IsaLevel::kAvxVnni>();
    case IsaLevel::kAvx512:
      return Kernels::template At<IsaLevel::kAvx512>();
    case IsaLevel::kAvx512Vnni:
      return Kernels::template At<IsaLevel::kAvx512Vnni>();
    case IsaLevel::kAvx512Bf16:
      return Kernels::template At<IsaLevel::kAvx512Bf16>();
#else
    default:
#endif
    case IsaLevel::kScalar:
      break;
  }
  return Kernels::template At<IsaLevel::kScalar>();
}

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_ISA_H_
