// What a parallel region costs beyond its work: each thread works for as long as the argument says,
// and the counters are the time of the whole region less that.
//   build/bin/benchmark_dispatch --benchmark_repetitions=9
//     --benchmark_enable_random_interleaving=true --benchmark_report_aggregates_only=true
// Beside the executor: a plain tbb::parallel_for, which is what it has to beat.
#include <benchmark/benchmark.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/machine/executor.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::nanoseconds;

void Work(Nanoseconds duration) {
  const Clock::time_point end = Clock::now() + duration;
  while (Clock::now() < end) {
  }
}

// Times `region`, whose threads each Work(state.range(1)).
template <typename Region>
void TimeRegions(benchmark::State& state, Region&& region) {
  const Nanoseconds work(state.range(1));
  constexpr int kWarmUp = 1000;  // all threads are awake
  for (int i = 0; i < kWarmUp; ++i) region(work);
  std::vector<double> over_work;  // nanoseconds
  while (state.KeepRunning()) {
    const Clock::time_point begin = Clock::now();
    region(work);
    over_work.push_back(static_cast<double>(Nanoseconds(Clock::now() - begin - work).count()));
  }
  std::sort(over_work.begin(), over_work.end());
  state.counters["median_ns"] = over_work[over_work.size() / 2];
  state.counters["p90_ns"] = over_work[over_work.size() * 9 / 10];
}

void ExecutorRegion(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  const auto executor = MakeExecutor(threads);
  TimeRegions(state, [&](Nanoseconds work) {
    const absl::Status status =
        ParallelFor(*executor, threads, [&](int64_t, int64_t, int) { Work(work); });
    if (!status.ok()) std::abort();
  });
}

void TbbParallelFor(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism, threads);
  tbb::task_arena arena(threads);
  TimeRegions(state, [&](Nanoseconds work) {
    arena.execute([&] {
      tbb::parallel_for(
          0, threads, [&](int) { Work(work); }, tbb::static_partitioner());
    });
  });
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"threads", "work_ns"})->UseRealTime();
  for (const int threads : {1, 2, 4}) benchmark->Args({threads, 5000});
  benchmark->Args({2, 50000});
}
BENCHMARK(ExecutorRegion)->Apply(Sizes);
BENCHMARK(TbbParallelFor)->Apply(Sizes);

}  // namespace
}  // namespace ng

BENCHMARK_MAIN();
