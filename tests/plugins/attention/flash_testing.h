// What the tests of the flash backend share.
#ifndef NG_TESTS_PLUGINS_ATTENTION_FLASH_TESTING_H_
#define NG_TESTS_PLUGINS_ATTENTION_FLASH_TESTING_H_

#include <memory>
#include <utility>
#include <vector>

#include "core/runtime/executor.h"
#include "ng/isa.h"
#include "ng/kv_view.h"
#include "tests/conformance/attention_rig.h"

namespace ng {

inline constexpr float kTolerance = 3e-5F;
inline constexpr Codec kCodecs[] = {Codec::kF32, Codec::kBf16, Codec::kF16};

// The level with dot products of bf16 rounds queries and weights to 8 bits.
inline float Bf16Tolerance(IsaLevel isa) {
  return isa == IsaLevel::kAvx512Bf16 ? 1e-2F : kTolerance;
}

// A backend and a store over `threads` threads of one ISA level.
struct Workbench {
  Workbench(const AttentionCase& c, const MakeAttention& attention, const MakeCache& cache,
            IsaLevel isa, int threads)
      : executor(MakeExecutor(threads)) {
    PluginContext context;
    context.executor = executor.get();
    context.isa = isa;
    auto made = AttentionRig::Make(c, attention, cache, context);
    if (made.ok()) rig = *std::move(made);
  }
  AttentionResult Run(const std::vector<SequenceData>& data, const std::vector<Step>& steps,
                      const std::vector<CaptureRequest>& captures = {}) const {
    if (rig == nullptr) return {};
    auto result = rig->Run(data, steps, captures);
    return result.ok() ? *std::move(result) : AttentionResult{};
  }
  std::unique_ptr<Executor> executor;
  std::unique_ptr<AttentionRig> rig;
};

}  // namespace ng

#endif  // NG_TESTS_PLUGINS_ATTENTION_FLASH_TESTING_H_
