// Every kind of allocation is made to fail once, and each time the caller gets a Status. A program
// of its own, because it replaces operator new.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "ng/engine.h"

namespace {

// The number of the allocation that fails; negative: none does.
std::atomic<int64_t> failing = -1;
std::atomic<int64_t> n_allocations = 0;

void* Allocate(std::size_t size, std::size_t alignment) {
  if (n_allocations.fetch_add(1) == failing.load()) throw std::bad_alloc();
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment;
  void* memory = std::aligned_alloc(alignment, rounded * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Never inlined: GCC 12 would take the free() it then sees for a mismatch with operator new.
__attribute__((noinline)) void* operator new(std::size_t size) {
  return Allocate(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<std::size_t>(alignment));
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace ng {
namespace {

// A whole life of an engine: open, encode, load, generate with everything recorded. Allocation
// `n_failing` of the engine's fails; none when negative. What the test itself allocates comes
// before.
absl::Status WholeRun(int64_t n_failing) {
  EngineOptions options;
  options.config_file = NG_SOURCE_DIR "/configs/demo.ini";
  options.overrides = {"run.max_new_tokens=3", "run.threads=2"};
  GenerateOptions keep;
  keep.steps = keep.capture_logits = true;
  keep.trace_layers = {0, 2};
  keep.on_step = [](int, const StepRecord&) { return absl::OkStatus(); };
  GenerateRequest request;
  request.max_new_tokens = 3;

  n_allocations = 0;
  failing = n_failing;
  NG_ASSIGN_OR_RETURN(const auto engine, Engine::Open(options));
  NG_ASSIGN_OR_RETURN(request.prompt_ids, engine->EncodeMessage("Who art thou?"));
  NG_RETURN_IF_ERROR(engine->Load(Needs({&request, 1})));
  NG_ASSIGN_OR_RETURN(const auto done, engine->Generate({&request, 1}, keep));
  return done[0].ids.size() > request.prompt_ids.size() ? absl::OkStatus()
                                                        : RuntimeError("nothing generated");
}

TEST(OutOfMemory, EveryFailedAllocationBecomesAStatus) {
  ASSERT_TRUE(WholeRun(-1).ok());  // also makes what is allocated once per process
  ASSERT_TRUE(WholeRun(-1).ok());
  const int64_t total = n_allocations;
  ASSERT_GT(total, 1000);
  // All of the first and last ones, and a sample in between: loading a vocabulary repeats itself.
  const int64_t stride = std::max<int64_t>(1, total / 250);
  int n_failed = 0;
  for (int64_t n = 0; n < total; n += n < 50 || n > total - 100 ? 1 : stride) {
    const absl::Status status = WholeRun(n);
    failing = -1;
    // A library may do without what it asked for; else the failure is reported as what it is.
    if (status.ok()) continue;
    ++n_failed;
    EXPECT_NE(ExitCode(status), 0) << "allocation " << n << ": " << status;
    EXPECT_FALSE(status.message().empty()) << "allocation " << n;
  }
  EXPECT_GT(n_failed, 100);
  EXPECT_TRUE(WholeRun(-1).ok());  // nothing is left broken
}

}  // namespace
}  // namespace ng
