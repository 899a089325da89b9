// What a request must be before anything is computed for it: inside the vocabulary, within every
// cap, and fit to be looked at, loaded and saved as it asks. None of it needs the weights.
#ifndef NG_CORE_RUNTIME_ENGINE_REQUEST_CHECKS_H_
#define NG_CORE_RUNTIME_ENGINE_REQUEST_CHECKS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "core/model/step/language_model.h"
#include "core/runtime/assembly/assembly.h"
#include "ng/engine.h"
#include "ng/status.h"

namespace ng {

// As CheckIds (ng/request.h), and UsageError when there is none.
absl::Status CheckPrompt(const ModelShape& shape, std::span<const int32_t> ids);

// Where the attention backend does not implement the model's sliding window, a run must end within
// it, where it is as good as none. Errors: LimitError with all numbers.
absl::Status CheckWindow(const Assembly& assembly, int64_t prompt_len, int64_t max_new_tokens);

// The smallest of the limits on a prompt's tokens, and its name as errors have it.
struct PromptLimit {
  int64_t tokens;
  std::string_view name;

  // How many tokens are looked at. Well beyond the limit: of a prompt that exceeds it by little the
  // error says by how much.
  int64_t most() const { return 2 * tokens + 4096; }
};
PromptLimit LimitOfPrompts(const Assembly& assembly);
// A prompt that has more than limit.most() tokens. Errors: LimitError.
absl::Status CheckPromptLength(const PromptLimit& limit, size_t n_tokens);

// As Engine::CheckRequest.
absl::Status CheckRequest(const Assembly& assembly, const GenerateRequest& request);

// That what the options keep of the request is computed: past the context of a run that goes on
// there, and of what a snapshot holds, some tensors are not. Errors: UsageError, LimitError.
absl::Status CheckKept(const Assembly& assembly, const GenerateRequest& request,
                       const GenerateOptions& options);

// The sequence that a request brings must have room, and something left to feed. Errors:
// UsageError, LimitError.
absl::Status CheckSequence(const LanguageModel& model, const GenerateRequest& request);

// Where the cache asks for the context of a text, the sequence has one. Errors: UsageError.
absl::Status CheckContext(const Assembly& assembly, const LanguageModel& model,
                          SequenceId sequence);

// The layers, heads and points to look at must be the model's. Errors: UsageError.
absl::Status CheckTraced(const Assembly& assembly, const GenerateOptions& options);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_ENGINE_REQUEST_CHECKS_H_
