// An engine with options of a test, and logits of a sequence that tokens are fed to.
#ifndef NG_TESTS_INTEGRATION_ENGINE_LAST_LOGITS_H_
#define NG_TESTS_INTEGRATION_ENGINE_LAST_LOGITS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
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

// The same with a token for another sequence before it in the step.
inline std::vector<float> LastLogitsBeside(Engine& engine, SequenceId other, int32_t token,
                                           SequenceId sequence,
                                           const std::vector<int32_t>& tokens) {
  const SequenceId both[] = {other, sequence};
  const std::vector<int32_t> given[] = {{token}, tokens};
  const auto step = engine.Extend(both, given, LogitRows::kLast);
  EXPECT_TRUE(step.ok()) << step.status();
  if (!step.ok()) return {};
  const float* const row = step->logits.Row(1);
  return {row, row + step->logits.extent[1]};
}

// With these options and then `more`, loaded.
inline std::unique_ptr<Engine> OpenLoaded(std::vector<std::string> overrides,
                                          const std::vector<std::string>& more,
                                          const RunNeeds& needs) {
  EngineOptions options;
  options.overrides = std::move(overrides);
  options.overrides.insert(options.overrides.end(), more.begin(), more.end());
  auto engine = Engine::Open(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  const absl::Status loaded = (*engine)->Load(needs);
  EXPECT_TRUE(loaded.ok()) << loaded;
  return *std::move(engine);
}

}  // namespace ng::test

#endif  // NG_TESTS_INTEGRATION_ENGINE_LAST_LOGITS_H_
