// What the tests of the flash backend share.
#ifndef NG_TESTS_PLUGINS_ATTENTION_FLASH_TESTING_H_
#define NG_TESTS_PLUGINS_ATTENTION_FLASH_TESTING_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/machine/executor.h"
#include "ng/conform/attention_rig.h"
#include "ng/isa.h"
#include "ng/kv_view.h"

namespace ng {

using conform::AttentionCase;
using conform::AttentionResult;
using conform::AttentionRig;
using conform::CaptureRequest;
using conform::MakeAttention;
using conform::MakeCache;
using conform::SequenceData;
using conform::Step;

inline constexpr float kTolerance = 3e-5F;
// Queries of int8 and int4 keys, and weights of such values, are rounded to 15 bits and a sign.
inline constexpr float kIntTolerance = 3e-4F;
inline constexpr Codec kCodecs[] = {Codec::kF32, Codec::kBf16, Codec::kF16, Codec::kInt8,
                                    Codec::kInt4};

// The level with dot products of bf16 rounds queries and weights to 8 bits.
inline float Bf16Tolerance(IsaLevel isa) {
  return isa == IsaLevel::kAvx512Bf16 ? 1e-2F : kTolerance;
}

inline float Tolerance(const AttentionCase& c, IsaLevel isa) {
  const bool bf16 = c.codec_k == Codec::kBf16 || c.codec_v == Codec::kBf16;
  const bool ints = HasScales(c.codec_k) || HasScales(c.codec_v);
  return std::max(bf16 ? Bf16Tolerance(isa) : kTolerance, ints ? kIntTolerance : kTolerance);
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
    auto result = rig->Run(data, steps, {.captures = captures});
    return result.ok() ? *std::move(result) : AttentionResult{};
  }
  std::unique_ptr<Executor> executor;
  std::unique_ptr<AttentionRig> rig;
};

}  // namespace ng

#endif  // NG_TESTS_PLUGINS_ATTENTION_FLASH_TESTING_H_
