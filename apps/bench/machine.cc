#include "apps/bench/machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace ng::bench {
namespace {

// Takes a loop's result, so that the compiler cannot leave the loop out.
void Keep(float value) { asm volatile("" : : "x"(value)); }

int64_t BytesToRead() {
  constexpr int64_t kLeast = int64_t{256} << 20;
  const int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);  // not positive where unknown
  return std::max(kLeast, 4 * cache);
}

}  // namespace

Arithmetic ArithmeticFor(std::string_view weights, IsaLevel isa) {
  if (weights == "bf16" && isa >= IsaLevel::kAvx512Bf16) return Arithmetic::kBf16;
  if (weights == "f32" || weights == "bf16" || weights == "f16" || isa == IsaLevel::kScalar) {
    return Arithmetic::kF32;
  }
  return Arithmetic::kInt8;
}

std::string_view ArithmeticName(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kF32:
      return "f32";
    case Arithmetic::kBf16:
      return "bf16";
    case Arithmetic::kInt8:
      return "int8";
  }
  return "unknown";
}

void Machine::Unmap::operator()(float* p) const { munmap(p, bytes); }

absl::StatusOr<std::unique_ptr<Machine>> Machine::Create(IsaLevel isa, int threads) {
  std::unique_ptr<Machine> machine(new Machine(isa, threads));
  constexpr int64_t kUnitBytes = kReadUnit * int64_t{sizeof(float)};
  const int64_t units = BytesToRead() / kUnitBytes / threads + 1;
  const auto bytes = static_cast<size_t>(units * kUnitBytes * threads);
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (memory == MAP_FAILED) {
    return LimitError("measuring the read bandwidth needs " + std::to_string(bytes) +
                      " bytes, more than can be had");
  }
  madvise(memory, bytes, MADV_HUGEPAGE);
  machine->floats_per_thread_ = units * kReadUnit;
  machine->data_ = {static_cast<float*>(memory), Unmap{bytes}};
  // Written by the threads that will read it: untouched pages would all be one page of zeros.
  machine->team_.Run([&](int thread) {
    std::fill_n(machine->data_.get() + thread * machine->floats_per_thread_,
                machine->floats_per_thread_, 1.0F);
  });
  return machine;
}

double Machine::ReadGbPerSecond() {
  double fastest = 0.0;
  const double bytes = 4.0 * static_cast<double>(floats_per_thread_ * team_.threads());
  for (const ReadLoop read : loops_.read) {
    const double seconds = team_.Run([&](int thread) {
      Keep(read(data_.get() + thread * floats_per_thread_, floats_per_thread_));
    });
    fastest = std::max(fastest, bytes / seconds);
  }
  return fastest / 1e9;
}

double Machine::PeakGopPerSecond(Arithmetic arithmetic) {
  constexpr int kRuns = 10;
  constexpr int64_t kSteps = int64_t{1} << 18;  // a run takes a millisecond or a few
  const ComputeLoop& loop = arithmetic == Arithmetic::kF32    ? loops_.f32
                            : arithmetic == Arithmetic::kBf16 ? loops_.bf16
                                                              : loops_.int8;
  double fastest = 0.0;
  const double operations =
      static_cast<double>(loop.operations_per_step * kSteps) * static_cast<double>(team_.threads());
  for (int run = 0; run < kRuns; ++run) {
    const double seconds = team_.Run([&](int /*thread*/) { Keep(loop.run(kSteps)); });
    fastest = std::max(fastest, operations / seconds);
  }
  return fastest / 1e9;
}

}  // namespace ng::bench
