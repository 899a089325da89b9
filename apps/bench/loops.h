// Loops of nothing but loads, or nothing but multiply-adds: the most that this machine gives.
//
// One table per instruction set level, in loops_<level>.cc. Each loop runs on the calling thread
// alone and returns a value that depends on everything it did, so that nothing is optimised out.
#ifndef NG_APPS_BENCH_LOOPS_H_
#define NG_APPS_BENCH_LOOPS_H_

#include <cstdint>

#include "ng/isa.h"

namespace ng::bench {

// Reads n_floats floats once. REQUIRES: n_floats is a multiple of kReadUnit.
using ReadLoop = float (*)(const float* data, int64_t n_floats);
inline constexpr int64_t kReadUnit = 1024;

// Multiply-adds in registers only, n_steps times as many as one step holds.
struct ComputeLoop {
  float (*run)(int64_t n_steps) = nullptr;
  int64_t operations_per_step = 0;  // two for each multiply-add
};

// In what order a range is read; which is fastest differs from machine to machine.
inline constexpr int kReadPatterns = 4;

struct Loops {
  ReadLoop read[kReadPatterns];
  ComputeLoop f32;
  ComputeLoop bf16;  // dot products of bf16 pairs; the f32 loop where the level has none
  ComputeLoop int8;  // dot products of byte quads; the f32 loop where the level has none
};

// REQUIRES: the CPU supports the level.
Loops LoopsOf(IsaLevel level);

// The parts of LoopsOf.
Loops ScalarLoops();
Loops Avx2Loops();
Loops Avx512Loops();
ComputeLoop Avx512VnniInt8Loop();
ComputeLoop Avx512Bf16Loop();

}  // namespace ng::bench

#endif  // NG_APPS_BENCH_LOOPS_H_
