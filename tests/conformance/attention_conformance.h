// What every attention plugin must do, as a list of what it does not.
//
// Runs a backend over a scattered store whose unwritten bytes are NaN and holds it against the
// formula in double (values, captured rows, every feature that it lists) and against itself (bits,
// over chunks, batches and threads). tests/conformance/attention_conformance_test.cc shows which
// faults are found.
#ifndef NG_TESTS_CONFORMANCE_ATTENTION_CONFORMANCE_H_
#define NG_TESTS_CONFORMANCE_ATTENTION_CONFORMANCE_H_

#include <string>
#include <vector>

#include "tests/conformance/attention_rig.h"

namespace ng {

struct AttentionConformanceOptions {
  IsaLevel isa = IsaLevel::kScalar;
  float tolerance = 3e-5F;  // relative to 1 + |value|
  // Where keys or values are bf16: a backend may round queries and weights alike.
  float bf16_tolerance = 3e-5F;
  // Where keys or values are int8 or int4: the same to 16-bit integers.
  float int_tolerance = 3e-5F;
};

// One line for each failure; empty for a conforming plugin. A case that the backend refuses is
// skipped, but the plain one (f32, 2 heads of 4) may not be refused.
std::vector<std::string> CheckAttention(const MakeAttention& make,
                                        const AttentionConformanceOptions& options);

}  // namespace ng

#endif  // NG_TESTS_CONFORMANCE_ATTENTION_CONFORMANCE_H_
