// Matmul alone: the matrices of a layer and the head, by weight type, rows and threads, beside what
// the machine can do at that moment.
//   build/bin/benchmark_matmul --benchmark_filter='135m.*/type:1/rows:(1|512)/'
//     --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
//     --benchmark_report_aggregates_only=true
// The type is a number of WeightType, its name stands at the end of the line.
// Counters: "flop" and "bytes" per second, two operations a multiply-add, each weight read once;
// "of_peak" and "of_bandwidth" as shares of Machine's figures, measured before and after each run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/machine.h"
#include "core/kernels/matmul.h"
#include "core/kernels/packed_matrix.h"
#include "core/machine/executor.h"
#include "ng/half.h"

namespace ng {
namespace {

using bench::Arithmetic;
using bench::Machine;

constexpr int64_t kFewRows = 32;                       // as a decode step has: weights from memory
constexpr int64_t kRotatedBytes = int64_t{160} << 20;  // more than the caches hold

struct Shape {
  int64_t n;
  int64_t k;
  bool operator==(const Shape&) const = default;
};

IsaLevel Isa() { return ChooseIsa("auto").value_or(IsaLevel::kScalar); }

std::vector<float> RandomValues(int64_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& x : values) x = normal(random);
  return values;
}

// Of any grid.
std::vector<QuantSpan> RandomSpans(const QuantGrid& grid, int64_t n) {
  std::mt19937 random(1);
  std::vector<QuantSpan> spans(static_cast<size_t>(n));
  for (QuantSpan& span : spans) {
    span.d = span.dmin = grid.f32_factors ? std::bit_cast<uint32_t>(0.01F) : F32ToF16(0.01F);
    for (int8_t& scale : span.scales) scale = static_cast<int8_t>(random() % 16);
    for (int8_t& minimum : span.minima) minimum = static_cast<int8_t>(random() % 16);
    for (uint8_t& q : span.q) q = static_cast<uint8_t>(random());
  }
  return spans;
}

PackedMatrix RandomMatrix(WeightType type, const Shape& shape, WeightMemory& memory) {
  PackedMatrix matrix = memory.Allocate(type, shape.n, shape.k).value();
  const std::vector<float> row = RandomValues(shape.k);
  const std::vector<QuantSpan> spans = IsGrid(type)
                                           ? RandomSpans(GridOf(type), shape.k / GridOf(type).span)
                                           : std::vector<QuantSpan>();
  for (int64_t i = 0; i < shape.n; ++i) {
    if (IsGrid(type)) {
      matrix.PackSpans({&i, 1}, [&](int64_t first, std::span<QuantSpan> out) {
        std::copy_n(spans.begin() + first, out.size(), out.begin());
      });
    } else {
      matrix.PackRows(i, 1, row.data());
    }
  }
  return matrix;
}

// `n` matrices alike. The last ones made are kept: a benchmark is called several times in a row.
const std::vector<PackedMatrix>& Matrices(WeightType type, const Shape& shape, size_t n) {
  static std::vector<PackedMatrix> kept;
  static Shape kept_shape = {};
  if (!(kept_shape == shape) || kept.size() != n || kept.front().type() != type) {
    kept.clear();
    const int64_t bytes = PackedMatrix::PackedBytes(type, shape.n, shape.k);
    WeightMemory memory = WeightMemory::Reserve(static_cast<int64_t>(n) * bytes).value();
    while (kept.size() < n) kept.push_back(RandomMatrix(type, shape, memory));
    kept_shape = shape;
  }
  return kept;
}

// Rows of random values as the type's kernel reads them; one after the other.
std::vector<std::byte> RandomInput(const KernelTable& kernels, WeightType type, int64_t n_rows,
                                   int64_t k) {
  const auto index = static_cast<size_t>(type);
  const int64_t row_bytes = InputRowBytes(kernels.input[index], k);
  const std::vector<float> x = RandomValues(n_rows * k);
  std::vector<std::byte> input(static_cast<size_t>(n_rows * row_bytes));
  for (int64_t row = 0; row < n_rows; ++row) {
    std::byte* to = input.data() + row * row_bytes;
    if (kernels.prepare[index] != nullptr) {
      kernels.prepare[index](x.data() + row * k, k, to);
    } else {
      std::memcpy(to, x.data() + row * k, static_cast<size_t>(row_bytes));
    }
  }
  return input;
}

Machine& MachineWith(int threads) {
  static std::vector<std::unique_ptr<Machine>> machines;  // by threads
  machines.resize(std::max(machines.size(), static_cast<size_t>(threads) + 1));
  std::unique_ptr<Machine>& machine = machines[static_cast<size_t>(threads)];
  if (machine == nullptr) machine = Machine::Create(Isa(), threads, nullptr).value();
  return *machine;
}

void BenchmarkMatmul(benchmark::State& state, const Shape& shape) {
  const auto type = static_cast<WeightType>(state.range(0));
  if (IsGrid(type) && shape.k % GridOf(type).span != 0) {
    state.SkipWithError("the type's spans do not divide k");
    return;
  }
  const int64_t n_rows = state.range(1);
  const int threads = static_cast<int>(state.range(2));
  const auto executor = MakeExecutor(threads);
  const KernelTable& kernels = Kernels(Isa());
  const int64_t bytes = PackedMatrix::PackedBytes(type, shape.n, shape.k);
  const bool few = n_rows <= kFewRows;
  const std::vector<PackedMatrix>& matrices =
      Matrices(type, shape, few ? static_cast<size_t>(kRotatedBytes / bytes + 1) : 1);
  const std::vector<std::byte> x = RandomInput(kernels, type, n_rows, shape.k);
  const MatmulInput input{x.data(), n_rows, shape.k, static_cast<int64_t>(x.size()) / n_rows};
  std::vector<float> out(static_cast<size_t>(n_rows * shape.n));  // [n_rows, n]
  const std::array<int64_t, 2> out_extent = {n_rows, shape.n};

  Machine& machine = MachineWith(threads);
  const Arithmetic arithmetic = bench::ArithmeticFor(WeightTypeName(type), Isa());
  const auto limits = [&] {
    return std::pair(*machine.ReadGbPerSecond(), *machine.PeakGopPerSecond(arithmetic));
  };
  const auto [gb_before, gop_before] = limits();
  const auto start = std::chrono::steady_clock::now();
  size_t next = 0;
  while (state.KeepRunning()) {
    const absl::Status status = Matmul({kernels, *executor, matrices[next], nullptr, input},
                                       TensorView<float, 2>(out.data(), out_extent));
    if (!status.ok()) state.SkipWithError("matmul failed");
    next = (next + 1) % matrices.size();
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto [gb_after, gop_after] = limits();

  const auto times = static_cast<double>(state.iterations());
  const double flop = 2.0 * static_cast<double>(n_rows * shape.n * shape.k) * times;
  const double read = static_cast<double>(bytes) * times;
  state.SetLabel(std::string(WeightTypeName(type)));
  state.counters["flop"] = benchmark::Counter(flop, benchmark::Counter::kIsRate);
  state.counters["bytes"] = benchmark::Counter(read, benchmark::Counter::kIsRate);
  state.counters["of_peak"] = flop / seconds / (0.5e9 * (gop_before + gop_after));
  if (few) state.counters["of_bandwidth"] = read / seconds / (0.5e9 * (gb_before + gb_after));
}

void ReadBandwidth(benchmark::State& state) {
  Machine& machine = MachineWith(static_cast<int>(state.range(0)));
  double fastest = 0.0;
  while (state.KeepRunning()) fastest = std::max(fastest, *machine.ReadGbPerSecond());
  state.counters["bytes"] = fastest * 1e9;
}

void Peak(benchmark::State& state, Arithmetic arithmetic) {
  Machine& machine = MachineWith(static_cast<int>(state.range(0)));
  double fastest = 0.0;
  while (state.KeepRunning()) fastest = std::max(fastest, *machine.PeakGopPerSecond(arithmetic));
  state.counters["flop"] = fastest * 1e9;
}

void Threads(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime()->Unit(benchmark::kMillisecond)->ArgName("threads")->Arg(1)->Arg(2);
}

void Cases(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime()->Unit(benchmark::kMicrosecond)->ArgNames({"type", "rows", "threads"});
  benchmark->ArgsProduct(
      {benchmark::CreateDenseRange(0, kWeightTypes - 1, 1), {1, 4, 32, 512}, {1, 2}});
}

BENCHMARK(ReadBandwidth)->Apply(Threads);
BENCHMARK_CAPTURE(Peak, f32, Arithmetic::kF32)->Apply(Threads);
BENCHMARK_CAPTURE(Peak, bf16, Arithmetic::kBf16)->Apply(Threads);
BENCHMARK_CAPTURE(Peak, int8, Arithmetic::kInt8)->Apply(Threads);

BENCHMARK_CAPTURE(BenchmarkMatmul, 135m_qkv, Shape{960, 576})->Apply(Cases);
BENCHMARK_CAPTURE(BenchmarkMatmul, 135m_attn_out, Shape{576, 576})->Apply(Cases);
BENCHMARK_CAPTURE(BenchmarkMatmul, 135m_gate_up, Shape{3072, 576})->Apply(Cases);
BENCHMARK_CAPTURE(BenchmarkMatmul, 135m_down, Shape{576, 1536})->Apply(Cases);
BENCHMARK_CAPTURE(BenchmarkMatmul, 135m_head, Shape{49152, 576})->Apply(Cases);
BENCHMARK_CAPTURE(BenchmarkMatmul, 1b_qkv, Shape{3072, 2048})->Apply(Cases);
BENCHMARK_CAPTURE(BenchmarkMatmul, 1b_attn_out, Shape{2048, 2048})->Apply(Cases);
BENCHMARK_CAPTURE(BenchmarkMatmul, 1b_gate_up, Shape{16384, 2048})->Apply(Cases);
BENCHMARK_CAPTURE(BenchmarkMatmul, 1b_down, Shape{2048, 8192})->Apply(Cases);
BENCHMARK_CAPTURE(BenchmarkMatmul, 1b_head, Shape{32000, 2048})->Apply(Cases);

}  // namespace
}  // namespace ng

BENCHMARK_MAIN();
