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
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/model/language_model.h"
#include "core/model/model_spec.h"
#include "core/runtime/recorder.h"
#include "core/runtime/step_observers.h"
#include "core/sampling/sampling.h"
#include "core/snapshot/cache_snapshot.h"
#include "ng/engine.h"

namespace ng {

// How to generate: the config's part. Everything is borrowed.
struct GenerateSettings {
  std::span<const int32_t> stop_ids;
  int64_t seed = 1;
  bool use_cache = true;
  int64_t prefill_chunk = 0;  // 0: whole
  // The most ids that the model is shown at a time. Of a text that grows beyond it the last ones
  // are, all computed anew at every step, as nanoGPT's generate does.
  int64_t context = std::numeric_limits<int64_t>::max();
  int max_sequences = 1;  // active at the same time
  double load_s = 0.0;
  const std::atomic<bool>* stop = nullptr;        // may be null
  std::function<void(const Progress&)> progress;  // may be empty
  // Of the model's cache; may be null when no request loads or saves one.
  const CacheSnapshots* snapshots = nullptr;
  // Who to name when the bits depend on how the ids were split into steps.
  std::string cache_and_attention = "the cache with the attention backend";
};

// The caps of seed 000, checked at entry: prompt + max_new against what one sequence may hold.
// `limit_name` says whose limit it is ("T_max", "cache tokens"). Errors: LimitError with all
// numbers.
absl::Status CheckCap(int64_t prompt_len, int64_t max_new_tokens, int64_t limit,
                      std::string_view limit_name);

class GenerateLoop {
 public:
  // `model` and `chain` must outlive the loop.
  GenerateLoop(LanguageModel& model, SamplerChain& chain, const GenerateSettings& settings);
  ~GenerateLoop();

  // Runs every request to its end. Results are in the order of the requests; an interruption ends
  // what is unfinished with StopReason::kInterrupted and is no error.
  // REQUIRES: each request fits the model's vocabulary and its caps: the context of the settings is
  // no more than the model's, a sequence that a request brings holds all its tokens, and so does
  // the context where attn_full (of the prompt: logits) is captured.
  absl::StatusOr<std::vector<Completion>> Run(std::span<const GenerateRequest> requests,
                                              const GenerateOptions& options);

 private:
  struct Active;

  void AttachObservers();
  // Begins the requests that come next, as far as there is room for them.
  absl::Status Admit();
  // The request's completion with its prompt.
  Completion& Begin(size_t index);
  // The next request, its sequence open, is fed from now on.
  absl::Status Activate(std::unique_ptr<Active> active);
  // Opens the request's sequence, or takes the one that it brings.
  absl::Status OpenSequence(const GenerateRequest& request, Active& active);
  // Every prompt row is kept, not the last one's logits alone.
  bool LooksAtPrompt() const;
  // Whether the request's keys and values may come from others, and others have its.
  bool Shares(const GenerateRequest& request) const;
  // An active request is about to compute what the request would have for nothing afterwards.
  bool WillBeShared(const GenerateRequest& request) const;
  // Fills the sequence of a request that has just begun from its snapshot.
  absl::Status LoadSnapshot(Active& active);
  // All of the request's prompt has been fed.
  absl::Status EndPrefill(Active& active);
  // Feeds every active request one step's tokens.
  absl::Status Step();
  // Keeps, chooses and retires by what the step has computed.
  absl::Status ReadStep();
  // Adds the step's time to the timings of those that it fed.
  void ShareTime();
  // Copies the tensors that the run wants of one sequence of the step.
  void KeepTensors(Active& active, size_t batch_index, int64_t logit_row);
  absl::Status Choose(Active& active, int64_t logit_row);
  absl::Status Retire(size_t active_index, StopReason reason);
  // Ends what is active and what has not begun.
  absl::Status End(StopReason reason);
  absl::Status Report(size_t index);
  // The last id is fed once more than generating needs, for its attention rows.
  bool WantsLastRow(const Active& active) const;
  bool Finished(const Active& active) const;
  bool StopRequested() const;
  // Traces non-finite logits back to the first layer that made them.
  absl::Status NotFinite(Active& active);

  LanguageModel& model_;
  SamplerChain& chain_;
  GenerateSettings settings_;
  std::span<const GenerateRequest> requests_;
  const GenerateOptions* options_ = nullptr;
  std::vector<Completion> completions_;
  std::vector<std::unique_ptr<Active>> active_;
  std::vector<int> free_slots_;
  size_t next_request_ = 0;
  bool cache_full_ = false;  // for the next request, until one of the active ones ends
  // Reused by every step.
  std::vector<StepSequence> step_sequences_;
  std::vector<size_t> done_;
  std::chrono::steady_clock::time_point step_begin_;
  std::unique_ptr<Recorder> recorder_;
  ObserverList observers_;
  std::unique_ptr<StepObserver> cache_debug_;
  std::unique_ptr<StepObserver> progress_;
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_GENERATE_H_
