#include "apps/bench/loops.h"

namespace ng::bench {

Loops LoopsOf(IsaLevel level) {
  if (level == IsaLevel::kScalar) return ScalarLoops();
  if (level <= IsaLevel::kAvxVnni) {
    Loops loops = Avx2Loops();
    if (level == IsaLevel::kAvxVnni) loops.int8 = AvxVnniInt8Loop();
    return loops;
  }
  Loops loops = Avx512Loops();
  if (level >= IsaLevel::kAvx512Vnni) loops.int8 = Avx512VnniInt8Loop();
  if (level >= IsaLevel::kAvx512Bf16) loops.bf16 = Avx512Bf16Loop();
  return loops;
}

}  // namespace ng::bench
