// Instruction set levels by name. One level is chosen when the engine opens (run.isa, or NG_ISA
// when run.isa is `auto`) and binds every kernel, those of plugins too: the bit contract holds
// within a level.
#ifndef NG_ISA_H_
#define NG_ISA_H_

#include <span>
#include <string_view>

#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

enum class IsaLevel {
  kScalar = 0,      // no instruction beyond the compiler's baseline
  kAvx2 = 1,        // AVX2, FMA, F16C
  kAvx512 = 2,      // AVX-512 F, BW, DQ, VL
  kAvx512Vnni = 3,  // and VNNI: dot products of bytes
  kAvx512Bf16 = 4,  // and BF16: dot products of bf16 pairs
};

// "scalar", "avx2", "avx512", "avx512_vnni", "avx512_bf16".
std::string_view IsaName(IsaLevel level);

// The levels that this CPU (and its operating system) can run, slowest first.
std::span<const IsaLevel> SupportedIsaLevels();

// `name` is "auto" (the NG_ISA environment variable if set, else the best supported level) or a
// level's name. Errors: UsageError for an unknown name or a level that this CPU lacks; both list
// what can be chosen.
absl::StatusOr<IsaLevel> ChooseIsa(std::string_view name);

// The kernels of a level: what Kernels::At<level>() returns, which a source that is compiled once
// for each level defines (ng/level.h).
template <class Kernels>
const Kernels& KernelsFor(IsaLevel level) {
  switch (level) {
    case IsaLevel::kAvx2:
      return Kernels::template At<IsaLevel::kAvx2>();
    case IsaLevel::kAvx512:
      return Kernels::template At<IsaLevel::kAvx512>();
    case IsaLevel::kAvx512Vnni:
      return Kernels::template At<IsaLevel::kAvx512Vnni>();
    case IsaLevel::kAvx512Bf16:
      return Kernels::template At<IsaLevel::kAvx512Bf16>();
    case IsaLevel::kScalar:
      break;
  }
  return Kernels::template At<IsaLevel::kScalar>();
}

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_ISA_H_
