#include "ng/isa.h"

#include <array>
#include <cstdlib>
#include <string>

namespace ng {
namespace {

// __builtin_cpu_supports also asks whether the operating system keeps the wide registers.
std::span<const IsaLevel> Detect() {
  static constexpr std::array<IsaLevel, 5> kAll = {IsaLevel::kScalar, IsaLevel::kAvx2,
                                                   IsaLevel::kAvx512, IsaLevel::kAvx512Vnni,
                                                   IsaLevel::kAvx512Bf16};
  // F16C is older than AVX2 on every CPU; clang 14 cannot ask for it.
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 =
      avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni") != 0;
  const bool bf16 = vnni && __builtin_cpu_supports("avx512bf16") != 0;
  return std::span(kAll).first(bf16 ? 5 : vnni ? 4 : avx512 ? 3 : avx2 ? 2 : 1);
}

}  // namespace

std::string_view IsaName(IsaLevel level) {
  switch (level) {
    case IsaLevel::kScalar:
      return "scalar";
    case IsaLevel::kAvx2:
      return "avx2";
    case IsaLevel::kAvx512:
      return "avx512";
    case IsaLevel::kAvx512Vnni:
      return "avx512_vnni";
    case IsaLevel::kAvx512Bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

std::span<const IsaLevel> SupportedIsaLevels() {
  static const std::span<const IsaLevel> levels = Detect();
  return levels;
}

absl::StatusOr<IsaLevel> ChooseIsa(std::string_view name) {
  std::string source = "run.isa";
  if (name == "auto") {
    const char* forced = std::getenv("NG_ISA");
    if (forced != nullptr && *forced != '\0') name = forced;
    if (name == "auto") return SupportedIsaLevels().back();
    source = "NG_ISA";
  }
  std::string allowed;
  for (const IsaLevel level : SupportedIsaLevels()) {
    if (name == IsaName(level)) return level;
    if (!allowed.empty()) allowed += ", ";
    allowed += IsaName(level);
  }
  return UsageError(source + " = " + std::string(name) +
                    ": not an instruction set level of this CPU; allowed: auto, " + allowed);
}

}  // namespace ng
