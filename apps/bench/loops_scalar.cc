// The loops without instructions beyond the compiler's baseline.
#include <cstdint>

#include "apps/bench/loops-inl.h"

namespace ng::bench {

Loops ScalarLoops() { return MakeLoops<scalar::Vec16, 2>(); }

}  // namespace ng::bench
