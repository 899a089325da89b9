// A run of the generate loop over an open engine: Engine::Generate, a Generation and a Session are
// each one. An engine has one at a time.
#ifndef NG_CORE_RUNTIME_ENGINE_ENGINE_RUN_H_
#define NG_CORE_RUNTIME_ENGINE_ENGINE_RUN_H_

#include "core/runtime/engine/engine_state.h"
#include "core/runtime/engine/request_checks.h"
#include "core/runtime/loop/generate.h"

namespace ng {

struct Engine::State::Run {
  // Both are borrowed. REQUIRES: CheckLoaded and CheckFree are ok.
  Run(State& state, const GenerateOptions& options);
  ~Run() { state.taken = false; }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // What Engine::Generate says of its options, and of a request, before anything is computed.
  absl::Status CheckOptions() const { return CheckTraced(*state.assembly, options); }
  absl::Status Check(const GenerateRequest& request);
  // Tells the probes that the run has ended with this status, and returns it, or what they or the
  // cache have to say where it is ok.
  absl::Status End(absl::Status status);

  State& state;
  const GenerateOptions& options;
  GenerateSettings settings;
  RequestSamplers samplers;
  GenerateParts parts;
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_ENGINE_ENGINE_RUN_H_
