#include "ng/isa.h"

#include <cpuid.h>

#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

namespace ng {
namespace {

constexpr std::string_view kFastest = "fastest";

// Raise a version with the change that changes bits.
constexpr Arithmetic kPortable = {"portable", 1};
constexpr Arithmetic kBf16Dot = {"bf16_dot", 1};

// By IsaLevel.
struct LevelRow {
  std::string_view name;
  const Arithmetic* arithmetic;
};
constexpr LevelRow kLevels[] = {
    {"scalar", &kPortable}, {"avx2", &kPortable},        {"avx_vnni", &kPortable},
    {"avx512", &kPortable}, {"avx512_vnni", &kPortable}, {"avx512_bf16", &kBf16Dot},
};

static_assert(std::size(kLevels) == static_cast<size_t>(IsaLevel::kAvx512Bf16) + 1);

// Clang 14 cannot ask for it.
bool HasAvxVnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & 1U << 4) != 0;
}

// The levels of this CPU. __builtin_cpu_supports also asks whether the operating system keeps the
// wide registers.
std::vector<IsaLevel> Detect() {
  std::vector<IsaLevel> levels = {IsaLevel::kScalar};
  // F16C is older than AVX2 on every CPU; clang 14 cannot ask for it.
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0) return levels;
  levels.push_back(IsaLevel::kAvx2);
  if (HasAvxVnni()) levels.push_back(IsaLevel::kAvxVnni);
  if (__builtin_cpu_supports("avx512f") == 0 || __builtin_cpu_supports("avx512bw") == 0 ||
      __builtin_cpu_supports("avx512dq") == 0 || __builtin_cpu_supports("avx512vl") == 0) {
    return levels;
  }
  levels.push_back(IsaLevel::kAvx512);
  if (__builtin_cpu_supports("avx512vnni") == 0) return levels;
  levels.push_back(IsaLevel::kAvx512Vnni);
  if (__builtin_cpu_supports("avx512bf16") != 0) levels.push_back(IsaLevel::kAvx512Bf16);
  return levels;
}

// Whether a level is faster than those below it. On CPUs of Intel a dot product of bf16 pairs takes
// as long as four multiply-adds of f32, which do twice as much.
bool PaysOff(IsaLevel level) {
  return level != IsaLevel::kAvx512Bf16 || __builtin_cpu_is("intel") == 0;
}

bool IsBuilt(IsaLevel level) { return ((NG_BUILT_LEVELS) >> static_cast<int>(level)) % 2 == 1; }

const LevelRow& RowOf(IsaLevel level) { return kLevels[static_cast<size_t>(level)]; }

bool Allowed(IsaLevel level, std::string_view arithmetic) {
  return arithmetic == kFastest || ArithmeticOf(level).name == arithmetic;
}

}  // namespace

std::string_view IsaName(IsaLevel level) { return RowOf(level).name; }

std::string Arithmetic::ToString() const {
  return std::string(name) + " " + std::to_string(version);
}

const Arithmetic& ArithmeticOf(IsaLevel level) { return *RowOf(level).arithmetic; }

std::span<const IsaLevel> SupportedIsaLevels() {
  static const std::vector<IsaLevel> levels = [] {
    std::vector<IsaLevel> built = Detect();
    std::erase_if(built, [](IsaLevel level) { return !IsBuilt(level); });
    return built;
  }();
  return levels;
}

absl::StatusOr<IsaLevel> ChooseIsa(std::string_view name) { return ChooseIsa(name, kFastest); }

absl::StatusOr<IsaLevel> ChooseIsa(std::string_view name, std::string_view arithmetic) {
  std::string source = "run.isa";
  if (name == "auto") {
    const char* forced = std::getenv("NG_ISA");
    if (forced != nullptr && *forced != '\0') {
      name = forced;
      source = "NG_ISA";
    }
  }
  std::string allowed;
  std::string reason = "not an instruction set level of this CPU";
  IsaLevel best = IsaLevel::kScalar;
  for (const IsaLevel level : Detect()) {
    if (!IsBuilt(level)) {
      if (name == IsaName(level)) {
        reason = "this CPU has it, but this build of ng does not (NG_LEVELS)";
      }
    } else if (Allowed(level, arithmetic)) {
      if (name == IsaName(level)) return level;
      if (PaysOff(level)) best = level;
      if (!allowed.empty()) allowed += ", ";
      allowed += IsaName(level);
    } else if (name == IsaName(level)) {
      reason = "its arithmetic is " + ArithmeticOf(level).ToString() +
               ", and run.arithmetic = " + std::string(arithmetic);
    }
  }
  if (name == "auto") return best;
  return UsageError(source + " = " + std::string(name) + ": " + reason + "; allowed: auto, " +
                    allowed);
}

}  // namespace ng
