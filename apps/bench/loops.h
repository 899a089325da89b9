// Loops that do nothing but loads, or nothing but multiply-adds: they show what this machine can
// do.
//
// There is one table for each instruction set level, in loops_<level>.cc. A loop runs on the
// calling thread and returns a value that depends on everything it did, so that nothing is
// optimised away.
#ifndef NG_APPS_BENCH_LOOPS_H_
#define NG_APPS_BENCH_LOOPS_H_

#include <cstdint>

#include "ng/isa.h"

namespace ng::bench {

// Reads n_floats floats once. REQUIRES: n_floats is a multiple of kReadUnit.
using ReadLoop = float (*)(const float* data, int64_t n_floats);
inline constexpr int64_t kReadUnit = 1024;

// Multiply-adds in registers only: n_steps times the operations of one step.
struct ComputeLoop {
  float (*run)(int64_t n_steps) = nullptr;
  int64_t operations_per_step = 0;  // two for each multiply-add
};

// The orders in which a range is read. Which one is the fastest differs from machine to machine.
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
ComputeLoop AvxVnniInt8Loop();
Loops Avx512Loops();
ComputeLoop Avx512VnniInt8Loop();
ComputeLoop Avx512Bf16Loop();

}  // namespace ng::bench

#endif  // NG_APPS_BENCH_LOOPS_H_
