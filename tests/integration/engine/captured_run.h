// A run that keeps its logits.
#ifndef NG_TESTS_INTEGRATION_ENGINE_CAPTURED_RUN_H_
#define NG_TESTS_INTEGRATION_ENGINE_CAPTURED_RUN_H_

#include <cstdint>
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

}  // namespace ng::test

#endif  // NG_TESTS_INTEGRATION_ENGINE_CAPTURED_RUN_H_
