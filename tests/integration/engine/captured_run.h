// A run that keeps its logits, and whether another has the same.
#ifndef NG_TESTS_INTEGRATION_ENGINE_CAPTURED_RUN_H_
#define NG_TESTS_INTEGRATION_ENGINE_CAPTURED_RUN_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "ng/engine.h"

namespace ng::test {

inline absl::StatusOr<Completion> CapturedRun(const EngineOptions& options,
                                              const std::vector<int32_t>& ids,
                                              int64_t max_new_tokens) {
  NG_ASSIGN_OR_RETURN(const auto engine, Engine::Open(options));
  const std::vector<GenerateRequest> requests = {{ids, max_new_tokens, {}}};
  RunNeeds needs = Needs(requests);
  needs.prompt_logits = true;
  NG_RETURN_IF_ERROR(engine->Load(needs));
  GenerateOptions keep;
  keep.capture_logits = true;
  NG_ASSIGN_OR_RETURN(std::vector<Completion> done, engine->Generate(requests, keep));
  return std::move(done.front());
}

// The same ids and the same logits, bit for bit.
inline void ExpectSameBits(const Completion& found, const Completion& expected) {
  EXPECT_EQ(found.ids, expected.ids);
  const std::vector<float>& a = found.captured.logits;
  const std::vector<float>& b = expected.captured.logits;
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

// The same ids, and logits within 1e-5 of the scale of the expected ones.
inline void ExpectSameLogits(const absl::StatusOr<Completion>& found,
                             const absl::StatusOr<Completion>& expected) {
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->ids, expected->ids);
  const std::vector<float>& wanted = expected->captured.logits;
  ASSERT_EQ(found->captured.logits.size(), wanted.size());
  float scale = 0.0F;
  for (const float logit : wanted) scale = std::max(scale, std::abs(logit));
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(found->captured.logits[i], wanted[i], 1e-5F * scale) << i;
  }
}

}  // namespace ng::test

#endif  // NG_TESTS_INTEGRATION_ENGINE_CAPTURED_RUN_H_
