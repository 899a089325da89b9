// Attention alone, at the shapes of common models, beside the read bandwidth of the same threads.
//   build/bin/benchmark_attention --benchmark_filter='decode/.*/threads:2|read'
//     --benchmark_repetitions=9 --benchmark_enable_random_interleaving=true
// Prefill: one sequence, causal, a layer at a time; flop_s counts 2 * heads * tokens^2 * head_dim.
// Decode: one token behind as many keys as named, layers in turn so that nothing stays in a cache;
// kv_bytes_s counts K and V once. sparse: decode, and prefill, with an eighth of the pages;
// kv_bytes_s counts the pages that are read and the bounds of all. Names: op / codecs of K and V /
// heads / kv heads / length / head_dim. The instruction set level is NG_ISA's, by default the best.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "core/machine/executor.h"
#include "ng/attention_backend.h"
#include "ng/isa.h"
#include "ng/tiles16.h"
#include "plugins/attention/flash/flash_attention.h"
#include "plugins/attention/sparse/sparse_attention.h"
#include "plugins/cache/contiguous/contiguous_store.h"

namespace ng {
namespace {

constexpr int64_t kColdBytes = int64_t{256} << 20;  // several times what caches hold

struct Shape {
  int n_heads;
  int n_kv_heads;
  int64_t length;
  int head_dim;
};
constexpr Shape kPrefillShapes[] = {
    {12, 12, 512, 64}, {12, 12, 2048, 64}, {9, 3, 4096, 64}, {32, 8, 2048, 64}, {32, 8, 2048, 128}};
constexpr Shape kDecodeShapes[] = {{12, 12, 1024, 64}, {12, 12, 8192, 64}, {9, 3, 4096, 64},
                                   {9, 3, 8000, 64},   {32, 8, 4096, 128}, {32, 8, 8000, 128},
                                   {32, 8, 16384, 128}};
constexpr Shape kSparseShapes[] = {{9, 3, 8000, 64}, {32, 8, 8000, 128}};
constexpr int64_t kSparsePart = 8;

// Of keys and values.
struct Codecs {
  Codec k;
  Codec v;
};
constexpr Codecs kCodecs[] = {{Codec::kF32, Codec::kF32},   {Codec::kBf16, Codec::kBf16},
                              {Codec::kF16, Codec::kF16},   {Codec::kInt8, Codec::kInt8},
                              {Codec::kInt8, Codec::kInt4}, {Codec::kInt4, Codec::kInt4}};

// Uniform in [-1, 1): what is computed does not depend on it.
std::vector<float> RandomFloats(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  uint32_t state = 1;
  for (float& x : values) {
    state = state * 1664525U + 1013904223U;
    x = static_cast<float>(state >> 8) * 0x1p-23F - 1.0F;
  }
  return values;
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "benchmark_attention: error: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

// `flash`, or with pages to read `sparse`.
std::unique_ptr<AttentionBackend> MakeBackend(const PluginContext& context, int64_t pages) {
  if (pages == 0) return CreateFlashAttention(context).value();
  std::vector<OptionValue> values(2);
  values[0].name = "pages";
  values[0].type = OptionType::kInt;
  values[0].integer = pages;
  values[1].name = "measure";
  values[1].type = OptionType::kBool;
  PluginContext with_options = context;
  with_options.options = OptionValues(values);
  return std::make_unique<SparseAttention>(with_options);
}

// A sequence of `length` tokens in every layer; runs the last n_queries of them, layer by layer.
class Attention {
 public:
  Attention(const Shape& shape, Codecs codecs, int threads, int64_t n_queries, int64_t pages = 0)
      : shape_(shape), executor_(MakeExecutor(threads)) {
    PluginContext context;
    context.executor = executor_.get();
    context.isa = ChooseIsa("auto").value();
    backend_ = MakeBackend(context, pages);
    CacheSpec spec{.n_layers = 1,
                   .n_kv_heads = shape.n_kv_heads,
                   .head_dim = shape.head_dim,
                   .max_tokens = shape.length,
                   .max_sequences = 1,
                   .codec_k = codecs.k,
                   .codec_v = codecs.v,
                   .layouts = backend_->layouts()};
    kv_bytes_ = PlanContiguousStore(context, spec).value().bytes_per_token * shape.length;
    n_layers_ = n_queries == 1 ? static_cast<int>(kColdBytes / kv_bytes_ + 1) : 1;
    if (pages > 0) {
      const int64_t tile = TileWriter::KeyTileBytes(codecs.k, shape.head_dim) +
                           TileWriter::ValueTileBytes(codecs.v, shape.head_dim);
      read_bytes_ = shape.n_kv_heads *
                    (pages * tile + shape.length / kTileTokens * BoundsBytes(shape.head_dim));
    } else {
      read_bytes_ = kv_bytes_;
    }
    spec.n_layers = n_layers_;
    store_ = CreateContiguousStore(context, spec).value();
    sequence_ = store_->Open(shape.length).value();
    Fill();

    const int64_t width = int64_t{shape.n_heads} * shape.head_dim;
    q_ = RandomFloats(n_queries * width);
    out_.resize(q_.size());
    const std::array<int64_t, 3> extent = {n_queries, shape.n_heads, shape.head_dim};
    const AttentionSpec asked{.n_heads = shape_.n_heads,
                              .n_kv_heads = shape_.n_kv_heads,
                              .head_dim = shape_.head_dim,
                              .v_head_dim = shape_.head_dim,
                              .scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim))};
    plan_ = backend_->NewPlan(asked).value();
    run_.q = {q_.data(), extent};
    run_.out = {out_.data(), extent};
    rows_ = {.sequence = sequence_,
             .start_pos = shape.length - n_queries,
             .n_tokens = n_queries,
             .row_begin = 0};
  }

  // As the engine does it for a step: one plan, then a layer.
  void RunLayer() {
    if (layer_ == 0) Check(backend_->Plan({&rows_, 1}, *plan_));
    const auto n_floats = static_cast<size_t>(plan_->scratch_floats);
    if (scratch_.size() < n_floats + 16) scratch_.resize(n_floats + 16);
    void* aligned = scratch_.data();
    size_t space = scratch_.size() * sizeof(float);
    std::align(64, n_floats * sizeof(float), aligned, space);
    run_.scratch = {static_cast<float*>(aligned), n_floats};
    const KvView view = store_->View(layer_, sequence_, shape_.length);
    run_.layer = layer_;
    run_.rows = {&rows_, 1};
    run_.views = {&view, 1};
    Check(backend_->Run(*plan_, run_));
    layer_ = (layer_ + 1) % n_layers_;
  }

  int64_t read_bytes() const { return read_bytes_; }

 private:
  void Fill() {
    const int64_t n = shape_.length * shape_.n_kv_heads * shape_.head_dim;
    const std::vector<float> values = RandomFloats(n);
    const TensorView<const float, 3> view(values.data(),
                                          {shape_.length, shape_.n_kv_heads, shape_.head_dim});
    const SequenceRows all{.sequence = sequence_, .n_tokens = shape_.length};
    for (int layer = 0; layer < n_layers_; ++layer) {
      Check(store_->Append(layer, {&all, 1}, view, view));
    }
    Check(store_->Commit({&all, 1}));
  }

  const Shape shape_;
  const std::unique_ptr<Executor> executor_;
  std::unique_ptr<AttentionBackend> backend_;
  std::unique_ptr<CacheStore> store_;
  SequenceId sequence_ = 0;
  SequenceRows rows_;
  int64_t kv_bytes_ = 0;    // of a layer
  int64_t read_bytes_ = 0;  // of these, for one query
  int n_layers_ = 1;
  int layer_ = 0;
  std::vector<float> q_, out_;  // [n_queries, n_heads, head_dim]
  std::vector<float> scratch_;
  std::unique_ptr<AttentionPlan> plan_;
  AttentionRun run_;
};

void SetRate(const char* name, double per_iteration, benchmark::State& state) {
  state.counters[name] = benchmark::Counter(per_iteration * static_cast<double>(state.iterations()),
                                            benchmark::Counter::kIsRate);
}

void Prefill(benchmark::State& state, Shape shape, Codecs codecs) {
  Attention attention(shape, codecs, static_cast<int>(state.range(0)), shape.length);
  attention.RunLayer();
  while (state.KeepRunning()) attention.RunLayer();
  const auto length = static_cast<double>(shape.length);
  SetRate("flop_s", 2.0 * shape.n_heads * length * length * shape.head_dim, state);
}

void Decode(benchmark::State& state, Shape shape, Codecs codecs) {
  Attention attention(shape, codecs, static_cast<int>(state.range(0)), 1);
  attention.RunLayer();
  while (state.KeepRunning()) attention.RunLayer();
  SetRate("kv_bytes_s", static_cast<double>(attention.read_bytes()), state);
}

int64_t SparsePages(const Shape& shape) { return shape.length / kTileTokens / kSparsePart; }

void SparsePrefill(benchmark::State& state, Shape shape, Codecs codecs) {
  Attention attention(shape, codecs, static_cast<int>(state.range(0)), shape.length,
                      SparsePages(shape));
  attention.RunLayer();
  while (state.KeepRunning()) attention.RunLayer();
}

void SparseDecode(benchmark::State& state, Shape shape, Codecs codecs) {
  Attention attention(shape, codecs, static_cast<int>(state.range(0)), 1, SparsePages(shape));
  attention.RunLayer();
  while (state.KeepRunning()) attention.RunLayer();
  SetRate("kv_bytes_s", static_cast<double>(attention.read_bytes()), state);
}

// What decode is measured against: every thread reads a part of memory like the cache's.
void Read(benchmark::State& state) {
  const auto executor = MakeExecutor(static_cast<int>(state.range(0)));
  void* memory =
      mmap(nullptr, kColdBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return state.SkipWithError("no memory");
  madvise(memory, kColdBytes, MADV_HUGEPAGE);
  auto* words = static_cast<uint64_t*>(memory);
  constexpr int64_t kWords = kColdBytes / 8;
  for (int64_t i = 0; i < kWords; ++i) words[i] = static_cast<uint64_t>(i);
  while (state.KeepRunning()) {
    Check(ParallelFor(*executor, kWords / 8, [&](int64_t begin, int64_t end, int) {
      uint64_t sum = 0;  // of a word of each cache line: memory is the limit, not the additions
      for (int64_t line = begin; line < end; ++line) sum += words[line * 8];
      benchmark::DoNotOptimize(sum);
    }));
  }
  SetRate("bytes_s", static_cast<double>(kColdBytes), state);
  munmap(memory, kColdBytes);
}

using Body = void (*)(benchmark::State& state, Shape shape, Codecs codecs);

void Register(const char* op, const Shape& shape, Codecs codecs, Body body) {
  std::ostringstream name;
  name << op << '/' << CodecName(codecs.k) << '-' << CodecName(codecs.v) << '/' << shape.n_heads
       << '/' << shape.n_kv_heads << '/' << shape.length << '/' << shape.head_dim;
  benchmark::RegisterBenchmark(name.str().c_str(), body, shape, codecs)
      ->ArgName("threads")
      ->Arg(1)
      ->Arg(2)
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace
}  // namespace ng

int main(int argc, char** argv) {
  for (const ng::Codecs& codecs : ng::kCodecs) {
    for (const ng::Shape& shape : ng::kPrefillShapes) {
      ng::Register("prefill", shape, codecs, ng::Prefill);
    }
    for (const ng::Shape& shape : ng::kDecodeShapes) {
      ng::Register("decode", shape, codecs, ng::Decode);
    }
    for (const ng::Shape& shape : ng::kSparseShapes) {
      ng::Register("prefill", shape, codecs, ng::Prefill);
      ng::Register("sparse_prefill", shape, codecs, ng::SparsePrefill);
      ng::Register("sparse_decode", shape, codecs, ng::SparseDecode);
    }
  }
  benchmark::RegisterBenchmark("read", ng::Read)
      ->ArgName("threads")
      ->Arg(1)
      ->Arg(2)
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
