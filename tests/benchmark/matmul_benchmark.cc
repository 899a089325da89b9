// Matmul alone: the matrices of a layer and the head, by weight type, rows and threads, beside what
// the machine can do at that moment.
//   build/bin/benchmark_matmul --benchmark_filter='135m/.*/bf16/rows:(1|512)/'
//     --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
//     --benchmark_report_aggregates_only=true
// Counters: "flop" and "bytes" per second, two operations a multiply-add, each weight read once;
// "of_peak" and "of_bandwidth" as shares of Machine's figures, measured before and after each run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/machine.h"
#include "core/kernels/packed_matrix.h"
#include "core/runtime/describe.h"
#include "core/runtime/executor.h"

namespace ng {
namespace {

using bench::Arithmetic;
using bench::Machine;

constexpr int kWeightTypes = static_cast<int>(std::size(KernelTable{}.matmul));
constexpr int64_t kFewRows = 32;                       // as a decode step has: weights from memory
constexpr int64_t kRotatedBytes = int64_t{160} << 20;  // more than the caches hold

struct Shape {
  const char* model;
  const char* matrix;
  int64_t n;
  int64_t k;
};

constexpr Shape kShapes[] = {
    {"135m", "qkv", 960, 576},      {"135m", "attn_out", 576, 576}, {"135m", "gate_up", 3072, 576},
    {"135m", "down", 576, 1536},    {"135m", "head", 49152, 576},   {"1b", "qkv", 3072, 2048},
    {"1b", "attn_out", 2048, 2048}, {"1b", "gate_up", 16384, 2048}, {"1b", "down", 2048, 8192},
    {"1b", "head", 32000, 2048},
};

IsaLevel Isa() { return ChooseIsa("auto").value_or(IsaLevel::kScalar); }

std::vector<float> RandomValues(int64_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& x : values) x = normal(random);
  return values;
}

PackedMatrix RandomMatrix(WeightType type, const Shape& shape) {
  PackedMatrix matrix = PackedMatrix::Allocate(type, shape.n, shape.k).value();
  const std::vector<float> row = RandomValues(shape.k);
  for (int64_t i = 0; i < shape.n; ++i) matrix.PackRows(i, 1, row.data());
  return matrix;
}

// `n` matrices alike. The last ones made are kept: a benchmark is called several times in a row.
const std::vector<PackedMatrix>& Matrices(WeightType type, const Shape& shape, size_t n) {
  static std::vector<PackedMatrix> kept;
  static const Shape* kept_shape = nullptr;
  if (kept_shape != &shape || kept.size() != n || kept.front().type() != type) {
    kept.clear();
    while (kept.size() < n) kept.push_back(RandomMatrix(type, shape));
    kept_shape = &shape;
  }
  return kept;
}

Machine& MachineWith(int threads) {
  static std::vector<std::unique_ptr<Machine>> machines;  // by threads
  machines.resize(std::max(machines.size(), static_cast<size_t>(threads) + 1));
  std::unique_ptr<Machine>& machine = machines[static_cast<size_t>(threads)];
  if (machine == nullptr) machine = Machine::Create(Isa(), threads).value();
  return *machine;
}

struct Case {
  const Shape& shape;
  WeightType type;
  int64_t n_rows;
  int threads;
};

void RunMatmul(benchmark::State& state, const Case& c) {
  const auto executor = MakeExecutor(c.threads);
  const KernelTable& kernels = Kernels(Isa());
  const int64_t bytes = PackedMatrix::PackedBytes(c.type, c.shape.n, c.shape.k);
  const bool few = c.n_rows <= kFewRows;
  const std::vector<PackedMatrix>& matrices =
      Matrices(c.type, c.shape, few ? static_cast<size_t>(kRotatedBytes / bytes + 1) : 1);
  const std::vector<float> x = RandomValues(c.n_rows * c.shape.k);    // [n_rows, k]
  std::vector<float> out(static_cast<size_t>(c.n_rows * c.shape.n));  // [n_rows, n]
  const std::array<int64_t, 2> x_extent = {c.n_rows, c.shape.k};
  const std::array<int64_t, 2> out_extent = {c.n_rows, c.shape.n};

  Machine& machine = MachineWith(c.threads);
  const Arithmetic arithmetic = bench::ArithmeticFor(WeightTypeName(c.type), Isa());
  const auto limits = [&] {
    return std::pair(machine.ReadGbPerSecond(), machine.PeakGopPerSecond(arithmetic));
  };
  const auto [gb_before, gop_before] = limits();
  const auto start = std::chrono::steady_clock::now();
  size_t next = 0;
  while (state.KeepRunning()) {
    const absl::Status status = Matmul(kernels, *executor, matrices[next], nullptr,
                                       {x.data(), x_extent}, {out.data(), out_extent});
    if (!status.ok()) state.SkipWithError("matmul failed");
    next = (next + 1) % matrices.size();
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto [gb_after, gop_after] = limits();

  const auto times = static_cast<double>(state.iterations());
  const double flop = 2.0 * static_cast<double>(c.n_rows * c.shape.n * c.shape.k) * times;
  const double read = static_cast<double>(bytes) * times;
  state.counters["flop"] = benchmark::Counter(flop, benchmark::Counter::kIsRate);
  state.counters["bytes"] = benchmark::Counter(read, benchmark::Counter::kIsRate);
  state.counters["of_peak"] = flop / seconds / (0.5e9 * (gop_before + gop_after));
  if (few) state.counters["of_bandwidth"] = read / seconds / (0.5e9 * (gb_before + gb_after));
}

void ReadBandwidth(benchmark::State& state, int threads) {
  double fastest = 0.0;
  while (state.KeepRunning()) fastest = std::max(fastest, MachineWith(threads).ReadGbPerSecond());
  state.counters["bytes"] = fastest * 1e9;
}

void Peak(benchmark::State& state, Arithmetic arithmetic, int threads) {
  double fastest = 0.0;
  while (state.KeepRunning()) {
    fastest = std::max(fastest, MachineWith(threads).PeakGopPerSecond(arithmetic));
  }
  state.counters["flop"] = fastest * 1e9;
}

void Register(int threads) {
  const std::string suffix = "/threads:" + std::to_string(threads);
  benchmark::RegisterBenchmark(("ReadBandwidth" + suffix).c_str(), ReadBandwidth, threads)
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
  for (const Arithmetic arithmetic : {Arithmetic::kF32, Arithmetic::kBf16, Arithmetic::kInt8}) {
    const std::string name = "Peak/" + std::string(bench::ArithmeticName(arithmetic)) + suffix;
    benchmark::RegisterBenchmark(name.c_str(), Peak, arithmetic, threads)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
  for (const Shape& shape : kShapes) {
    for (int type = 0; type < kWeightTypes; ++type) {
      for (const int64_t n_rows : {1, 4, 32, 512}) {
        const Case c{shape, static_cast<WeightType>(type), n_rows, threads};
        const std::string name = std::string("Matmul/") + shape.model + "/" + shape.matrix + "/" +
                                 std::string(WeightTypeName(c.type)) +
                                 "/rows:" + std::to_string(n_rows) + suffix;
        benchmark::RegisterBenchmark(name.c_str(), RunMatmul, c)
            ->UseRealTime()
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

}  // namespace
}  // namespace ng

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  for (const int threads : {1, 2}) ng::Register(threads);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
