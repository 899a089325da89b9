// The generate loop: admit, step, retire, over one ragged StepBatch.
//
// Every active request feeds the tokens that its sequence does not hold yet: at first its prompt
// (in chunks, if asked), then the one token chosen last; prompts of some and single tokens of
// others are one step. A request is admitted when the cache has room for all it may come to hold,
// and in turn. Uncached generation is the same loop with the sequence emptied after every choice,
// so that all ids are fed again. When the last id has been fed, its logits choose the next token.
#ifndef NG_CORE_RUNTIME_LOOP_GENERATE_H_
#define NG_CORE_RUNTIME_LOOP_GENERATE_H_

#include <span>
#include <vector>

#include "core/runtime/loop/generate_parts.h"
#include "ng/request.h"
#include "ng/status.h"

namespace ng {

// Runs every request to its end. Results are in the order of the requests; an interruption ends
// what is unfinished with StopReason::kInterrupted and is no error. Whatever else ends the run, an
// exception too, every request has been reported by on_done.
// REQUIRES: each request fits the model's vocabulary and its caps: the context of the settings is
// no more than the model's, a sequence that a request brings holds all its tokens, and so does the
// context where attn_full (of the prompt: logits) is captured.
absl::StatusOr<std::vector<Completion>> Generate(const GenerateParts& parts,
                                                 const GenerateSettings& settings,
                                                 std::span<const GenerateRequest> requests,
                                                 const GenerateOptions& options);

}  // namespace ng

#endif  // NG_CORE_RUNTIME_LOOP_GENERATE_H_
