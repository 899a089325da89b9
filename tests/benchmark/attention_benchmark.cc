// Attention alone: one layer's causal prefill over a contiguous cache, by backend and threads.
//   build/bin/benchmark_attention --benchmark_repetitions=9
//     --benchmark_enable_random_interleaving=true --benchmark_report_aggregates_only=true
// The counter is the useful work: 4 * head_dim operations for each (query, visible key, head).
#include <benchmark/benchmark.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "core/runtime/executor.h"
#include "ng/attention_backend.h"
#include "plugins/attention/flash/flash_attention.h"
#include "plugins/cache/contiguous/contiguous_store.h"

namespace ng {
namespace {

constexpr int kHeads = 8;
constexpr int kHeadDim = 64;
constexpr int64_t kTokens = 2048;

class Prefill {
 public:
  Prefill(int threads, Codec codec) : executor_(MakeExecutor(threads)) {
    PluginContext context;
    context.executor = executor_.get();
    context.isa = SupportedIsaLevels().back();
    backend_ = CreateFlashAttention(context).value();
    const CacheSpec spec{.n_layers = 1,
                         .n_kv_heads = kHeads,
                         .head_dim = kHeadDim,
                         .max_tokens = kTokens,
                         .max_sequences = 1,
                         .codec_k = codec,
                         .codec_v = codec,
                         .layouts = backend_->layouts()};
    store_ = CreateContiguousStore(context, spec).value();
    rows_ = {.sequence = store_->Open(kTokens).value(), .n_tokens = kTokens};
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::vector<float>* values : {&q_, &k_, &v_}) {
      values->resize(kTokens * kHeads * kHeadDim);
      for (float& x : *values) x = normal(random);
    }
    out_.resize(q_.size());
    const std::array<int64_t, 3> extent = {kTokens, kHeads, kHeadDim};
    const absl::Status appended =
        store_->Append(0, {&rows_, 1}, {k_.data(), extent}, {v_.data(), extent});
    if (!appended.ok()) std::abort();
    view_ = store_->View(0, rows_.sequence, kTokens);
    run_.q = {q_.data(), extent};
    run_.out = {out_.data(), extent};
    run_.views = {&view_, 1};
  }

  bool Run() {
    const AttentionSpec spec{.n_heads = kHeads,
                             .n_kv_heads = kHeads,
                             .head_dim = kHeadDim,
                             .scale = 1.0F / std::sqrt(static_cast<float>(kHeadDim)),
                             .needs = {}};
    if (!backend_->Plan(spec, {&rows_, 1}, &plan_).ok()) return false;
    scratch_.resize(static_cast<size_t>(plan_.scratch_floats + 16));
    const auto address = reinterpret_cast<uintptr_t>(scratch_.data());
    const uintptr_t skipped = ((address + 63) & ~uintptr_t{63}) - address;
    run_.scratch = {scratch_.data() + skipped / sizeof(float),
                    static_cast<size_t>(plan_.scratch_floats)};
    return backend_->Run(plan_, run_).ok();
  }

 private:
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<AttentionBackend> backend_;
  std::unique_ptr<CacheStore> store_;
  SequenceRows rows_;
  KvView view_;
  std::vector<float> q_, k_, v_, out_;  // [kTokens, kHeads, kHeadDim]
  std::vector<float> scratch_;
  AttentionPlan plan_;
  AttentionRun run_;
};

void FlashPrefill2048(benchmark::State& state, Codec codec) {
  Prefill prefill(static_cast<int>(state.range(0)), codec);
  while (state.KeepRunning()) {
    if (!prefill.Run()) state.SkipWithError("attention failed");
  }
  const double pairs = 0.5 * kTokens * (kTokens + 1);
  state.counters["flop"] =
      benchmark::Counter(4.0 * kHeadDim * kHeads * pairs * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(FlashPrefill2048, f32, Codec::kF32)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(FlashPrefill2048, bf16, Codec::kBf16)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ng

BENCHMARK_MAIN();
