// The generate loop: admit, step, retire, over one ragged StepBatch.
//
// Every active request feeds the tokens that its sequence does not hold yet: at first its prompt
// (in chunks, if asked), then the one token chosen last; prompts of some and single tokens of
// others are one step. A request is admitted when the cache has room for all it may come to hold,
// and in turn. Uncached generation is the same loop with the sequence emptied after every choice,
// so that all ids are fed again. When the last id has been fed, its logits choose the next token.
#ifndef NG_CORE_RUNTIME_GENERATE_H_
#define NG_CORE_RUNTIME_GENERATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/model/language_model.h"
#include "core/runtime/checkpoints.h"
#include "core/runtime/probe_chain.h"
#include "core/runtime/request_samplers.h"
#include "core/runtime/speculation.h"
#include "core/snapshot/cache_snapshot.h"
#include "ng/engine.h"

namespace ng {

// What chooses and what computes. Borrowed.
struct GenerateParts {
  LanguageModel& model;
  RequestSamplers& samplers;
  // Of the model's cache; may be null when no request loads or saves one.
  const CacheSnapshots* snapshots = nullptr;
  ProbeChain* probes = nullptr;        // null, or empty: nobody looks
  Speculation* speculation = nullptr;  // null: nothing is drafted
  Checkpoints* checkpoints = nullptr;  // of the model's cache; null: it has none
};

// How to generate: the config's part. Everything is borrowed.
struct GenerateSettings {
  std::span<const int32_t> stop_ids;
  bool use_cache = true;
  int64_t prefill_chunk = 0;  // 0: whole
  // How much longer, about, prompts may make a step in which others decode (PromptPace). 0: any.
  double most_beside_s = 0.0;
  // The most ids that the model is shown at a time. Of a text that grows beyond it the last ones
  // are, all computed anew at every step, as nanoGPT's generate does.
  int64_t context = std::numeric_limits<int64_t>::max();
  int max_sequences = 1;  // active at the same time
  double load_s = 0.0;
  const std::atomic<bool>* stop = nullptr;        // may be null
  std::function<void(const Progress&)> progress;  // may be empty
  // Who to name when the bits depend on how the ids were split into steps.
  std::string cache_and_attention = "the cache with the attention backend";
};

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

#endif  // NG_CORE_RUNTIME_GENERATE_H_
