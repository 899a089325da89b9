// The most that the machine can do: bytes read and operations computed per second, with as many
// threads as the engine has. Speeds are divided by these. They are measured between the rounds,
// because a shared machine changes its speed.
#ifndef NG_APPS_BENCH_MACHINE_H_
#define NG_APPS_BENCH_MACHINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "apps/bench/loops.h"
#include "apps/bench/team.h"
#include "ng/isa.h"
#include "ng/status.h"

namespace ng::bench {

// The multiply-adds with which a matmul over some type of weights is compared.
enum class Arithmetic { kF32, kBf16, kInt8 };

// The fastest arithmetic that the level has for weights of this type ("f32", "int4", ...). Types
// that are neither f32 nor of 16 bits count as bytes.
Arithmetic ArithmeticFor(std::string_view weights, IsaLevel isa);
std::string_view ArithmeticName(Arithmetic arithmetic);  // "f32", "bf16", "int8"

class Machine {
 public:
  // Reserves at least 256 MB to read, and more than the caches hold. A measurement ends early when
  // `stop` is true; `stop` may be null. Errors: LimitError, InterruptedError.
  // REQUIRES: the CPU supports `isa`, threads >= 1.
  static absl::StatusOr<std::unique_ptr<Machine>> Create(IsaLevel isa, int threads,
                                                         const std::atomic<bool>* stop);

  // The best of a few patterns of plain loads, each thread in its own range; in 10^9 bytes / s.
  // Errors: InterruptedError.
  absl::StatusOr<double> ReadGbPerSecond();
  // The best of a few short runs, all threads at once; in 10^9 operations / s. A multiply-add
  // counts as two. Errors: InterruptedError.
  absl::StatusOr<double> PeakGopPerSecond(Arithmetic arithmetic);

 private:
  struct Unmap {
    size_t bytes;
    void operator()(float* p) const;
  };

  Machine(IsaLevel isa, std::unique_ptr<Team> team, const std::atomic<bool>* stop)
      : loops_(LoopsOf(isa)), team_(std::move(team)), stop_(stop) {}
  bool Stopped() const { return stop_ != nullptr && *stop_; }

  Loops loops_;
  std::unique_ptr<Team> team_;
  const std::atomic<bool>* stop_;
  int64_t floats_per_thread_ = 0;
  std::unique_ptr<float[], Unmap> data_;  // [threads, floats_per_thread_]
};

}  // namespace ng::bench

#endif  // NG_APPS_BENCH_MACHINE_H_
