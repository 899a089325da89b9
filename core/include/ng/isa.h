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

// A bit for each level that was built. CMake says it where NG_LEVELS leaves some out.
#if !defined(NG_BUILT_LEVELS)
#define NG_BUILT_LEVELS 63
#endif

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

// The levels that were built and that this CPU (and its operating system) can run, those with fewer
// instructions first.
std::span<const IsaLevel> SupportedIsaLevels();

// `name` is "auto" (the NG_ISA environment variable if set, else the fastest supported level, which
// is not avx512_bf16 on CPUs of Intel: they are slow at it) or a level's name. Errors: UsageError
// for an unknown name, and for a level that this CPU lacks or that was not built; each lists what
// can be chosen.
absl::StatusOr<IsaLevel> ChooseIsa(std::string_view name);
// Among the levels that `arithmetic` (run.arithmetic) allows: "fastest", any; "portable", those of
// that arithmetic. UsageError also for a level of another one. REQUIRES: one of these two words.
absl::StatusOr<IsaLevel> ChooseIsa(std::string_view name, std::string_view arithmetic);

// The kernels of a level: what Kernels::At<level>() returns, which a source that is compiled once
// for each level defines (ng/level.h). Of a level that was not built (NG_LEVELS in CMake), those of
// the best one below it.
template <class Kernels>
const Kernels& KernelsFor(IsaLevel level) {
  using L = IsaLevel;
  constexpr auto kIsBuilt = [](L one) {
    return ((NG_BUILT_LEVELS) >> static_cast<int>(one)) % 2 == 1;
  };
  if constexpr (kIsBuilt(L::kAvx512Bf16)) {
    if (level == L::kAvx512Bf16) return Kernels::template At<L::kAvx512Bf16>();
  }
  if constexpr (kIsBuilt(L::kAvx512Vnni)) {
    if (level >= L::kAvx512Vnni) return Kernels::template At<L::kAvx512Vnni>();
  }
  if constexpr (kIsBuilt(L::kAvx512)) {
    if (level >= L::kAvx512) return Kernels::template At<L::kAvx512>();
  }
  if constexpr (kIsBuilt(L::kAvxVnni)) {
    if (level == L::kAvxVnni) return Kernels::template At<L::kAvxVnni>();
  }
  if constexpr (kIsBuilt(L::kAvx2)) {
    if (level >= L::kAvx2) return Kernels::template At<L::kAvx2>();
  }
  return Kernels::template At<L::kScalar>();
}

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_ISA_H_
