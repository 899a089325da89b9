// Logits of a sequence that tokens are fed to.
#ifndef NG_TESTS_INTEGRATION_ENGINE_LAST_LOGITS_H_
#define NG_TESTS_INTEGRATION_ENGINE_LAST_LOGITS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "ng/engine.h"

namespace ng::test {

// The logits after `tokens`, appended to the sequence; empty after an error, which fails the test.
inline std::vector<float> LastLogits(Engine& engine, SequenceId sequence,
                                     const std::vector<int32_t>& tokens) {
  const auto step = engine.Extend({&sequence, 1}, {&tokens, 1});
  EXPECT_TRUE(step.ok()) << step.status();
  if (!step.ok()) return {};
  const float* const row = step->logits.data;
  return {row, row + engine.model_shape().vocab_size};
}

}  // namespace ng::test

#endif  // NG_TESTS_INTEGRATION_ENGINE_LAST_LOGITS_H_
