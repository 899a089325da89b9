#include "apps/bench/machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
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

// Reads a range in pieces and looks for a signal between them. This costs too little to be
// measured.
template <typename Body>
void ForPieces(int64_t n_floats, Body&& body) {
  constexpr int64_t kPiece = 4096 * kReadUnit;  // 16 MiB
  for (int64_t first = 0; first < n_floats; first += kPiece) {
    body(first, std::min(kPiece, n_floats - first));
  }
}

absl::Status Interrupted() { return InterruptedError("interrupted while measuring the machine"); }

}  // namespace

Arithmetic ArithmeticFor(std::string_view weights, IsaLevel isa) {
  const bool pairs = weights == "bf16" || weights.starts_with("e4m3");
  if (pairs && isa >= IsaLevel::kAvx512Bf16) return Arithmetic::kBf16;
  constexpr std::string_view kFloats[] = {"f32", "f16", "nf4", "fp4", "nvfp4"};
  if (pairs || std::ranges::find(kFloats, weights) != std::end(kFloats) ||
      isa == IsaLevel::kScalar) {
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

absl::StatusOr<std::unique_ptr<Machine>> Machine::Create(IsaLevel isa, int threads,
                                                         const std::atomic<bool>* stop) {
  NG_ASSIGN_OR_RETURN(std::unique_ptr<Team> team, Team::Create(threads));
  std::unique_ptr<Machine> machine(new Machine(isa, std::move(team), stop));
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
  // Written by the threads that will read it. Pages that nobody has written are all the same page
  // of zeros.
  machine->team_->Run([&](int thread) {
    float* const data = machine->data_.get() + thread * machine->floats_per_thread_;
    ForPieces(machine->floats_per_thread_, [&](int64_t first, int64_t n) {
      if (!machine->Stopped()) std::fill_n(data + first, n, 1.0F);
    });
  });
  if (machine->Stopped()) return Interrupted();
  return machine;
}

absl::StatusOr<double> Machine::ReadGbPerSecond() {
  double fastest = 0.0;
  const double bytes = 4.0 * static_cast<double>(floats_per_thread_ * team_->threads());
  for (const ReadLoop read : loops_.read) {
    const double seconds = team_->Run([&](int thread) {
      const float* const data = data_.get() + thread * floats_per_thread_;
      ForPieces(floats_per_thread_, [&](int64_t first, int64_t n) {
        if (!Stopped()) Keep(read(data + first, n));
      });
    });
    if (Stopped()) return Interrupted();
    fastest = std::max(fastest, bytes / seconds);
  }
  return fastest / 1e9;
}

absl::StatusOr<double> Machine::PeakGopPerSecond(Arithmetic arithmetic) {
  constexpr int kRuns = 10;
  constexpr int64_t kSteps = int64_t{1} << 18;  // a run takes a millisecond or a few
  const ComputeLoop& loop = arithmetic == Arithmetic::kF32    ? loops_.f32
                            : arithmetic == Arithmetic::kBf16 ? loops_.bf16
                                                              : loops_.int8;
  double fastest = 0.0;
  const double operations = static_cast<double>(loop.operations_per_step * kSteps) *
                            static_cast<double>(team_->threads());
  for (int run = 0; run < kRuns; ++run) {
    const double seconds = team_->Run([&](int /*thread*/) { Keep(loop.run(kSteps)); });
    if (Stopped()) return Interrupted();
    fastest = std::max(fastest, operations / seconds);
  }
  return fastest / 1e9;
}

}  // namespace ng::bench
