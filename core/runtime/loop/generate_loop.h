// GenerateLoop: the generate loop as an object to which requests may be added while it runs.
//
// Its caller adds requests and calls Advance until nothing is left. What begins a request is in
// admission.cc, what is made of a step's logits in token_choice.cc. Thread: the engine's.
#ifndef NG_CORE_RUNTIME_LOOP_GENERATE_LOOP_H_
#define NG_CORE_RUNTIME_LOOP_GENERATE_LOOP_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/runtime/loop/active_request.h"
#include "core/runtime/loop/generate_parts.h"
#include "core/runtime/loop/prompt_pace.h"
#include "core/runtime/watch/step_observers.h"

namespace ng {

// What is proposed for a place that no draft reaches.
inline constexpr int32_t kNoDraft = -1;

class GenerateLoop {
 public:
  // All are borrowed.
  GenerateLoop(const GenerateParts& parts, const GenerateSettings& settings,
               const GenerateOptions& options);
  ~GenerateLoop();
  GenerateLoop(const GenerateLoop&) = delete;
  GenerateLoop& operator=(const GenerateLoop&) = delete;

  // The request begins in one of the next steps, behind those that were added before.
  // REQUIRES: as Generate's; no other one that is not reported yet has this index.
  void Add(const AddedRequest& added);
  // Ends a request with kInterrupted and reports it; nothing where it is not there. Errors: those
  // of the report, of its stages and probes.
  absl::Status Cancel(int index);
  // Begins what there is room for, and takes one step, unless the stop flag is set. After an error
  // End is due; InterruptedError is one that the stop flag may have brought.
  absl::Status Turn();
  // Takes a turn. Whether there is more to do. After an error, or when the stop flag is set, which
  // is none, all requests have been ended and reported.
  absl::StatusOr<bool> Advance();
  // Ends and reports everything. A request that only waits for its last row has ended as it did.
  absl::Status End(StopReason reason);

  // Nothing runs and nothing waits.
  bool idle() const { return waiting_.empty() && active_.empty(); }
  int64_t n_waiting() const { return std::ssize(waiting_); }
  int64_t n_active() const { return std::ssize(active_); }
  // How many sampler chains the waiting ones have been added with.
  int64_t n_waiting_chains() const;

 private:
  void AttachObservers();
  bool StopRequested() const;
  // Whether every token of the prompts is fed because somebody looks at it.
  bool KeepsPrompt() const;

  // admission.cc
  // Begins the requests that come next, as far as there is room for them.
  absl::Status Admit();
  // Writes the prompt into the completion of a request.
  void BeginCompletion(const AddedRequest& added) const;
  // Opens the request's sequence, or takes the one that it brings.
  absl::Status OpenSequence(ActiveRequest& active);
  // The request, its sequence open, is fed from now on. An error leaves it to be retired.
  absl::Status Activate(ActiveRequest& active);
  // Tells the cache where the request's context ends, where that is known.
  absl::Status SetContext(const ActiveRequest& active);
  // Tells the sampler's stages how the request begins.
  static absl::Status OpenStages(const ActiveRequest& active);
  // Whether the request's keys and values may come from others, and others have its.
  bool Shares(const GenerateRequest& request) const;
  // The run's set of adapters that has this one. REQUIRES: it is there, or no name.
  int32_t SetOf(const std::string& adapter) const;
  // Ids as the cache lists them, until the next call.
  std::span<const int32_t> Listed(std::span<const int32_t> ids, int32_t adapters);
  // Whether there is nothing to compute for it.
  bool ComesBack(const GenerateRequest& request) const;
  // An active request is about to compute what the request would have for nothing afterwards.
  bool WillBeShared(const GenerateRequest& request);
  // Fills the sequence of a request that has just begun from its snapshot.
  absl::Status LoadSnapshot(ActiveRequest& active);

  // checkpointed_steps.cc
  // Decides where checkpoints of a request are made, whose sequence has been opened and filled.
  void PlaceMarks(ActiveRequest& active);
  // How many tokens a step feeds at most that begins there, because a state cannot go back.
  int64_t TokensToMark(const ActiveRequest& active, int64_t begin) const;
  // An active request is about to make a checkpoint that the request would begin with.
  bool WillHaveCheckpoint(const GenerateRequest& request);
  // Those that are due behind a step.
  absl::Status MakeCheckpoints(ActiveRequest& active);

  // drafted_steps.cc
  // Why this run drafts nothing though there is a drafter; empty: it does.
  std::string_view WhyNoDrafts() const;
  // Tells the drafter how the request begins.
  absl::Status OpenDrafts(ActiveRequest& active);
  // Asks the drafter what to feed behind the newest tokens in this step.
  absl::Status ProposeDrafts();
  // Tells the drafts how long the step has taken, where it fed nothing but what was drafted for.
  void TimeDrafts(double seconds);
  // Takes a token from each row, as long as the one before it was drafted, and takes back what was
  // fed and not chosen. rows: [1 + drafted, vocab_size]
  absl::Status TakeDrafted(ActiveRequest& active, const FedTokens& fed,
                           const TensorView<const float, 2>& rows);

  // generate_loop.cc
  // Feeds every active request one step's tokens.
  absl::Status Step();
  // What a step still has room for.
  struct StepRoom {
    int64_t scored_rows;    // of logits, for prompts that are scored
    int64_t prompt_tokens;  // beside requests that decode
  };
  StepRoom RoomOfStep() const;
  // What the step feeds of a request, its place in the step being `entry`. Takes it of `room`.
  FedTokens WhatToFeed(const ActiveRequest& active, int entry, StepRoom* room) const;
  PromptPace::StepTokens TokensOfStep() const;
  // Counts time of the step at hand as loading.
  void CountReading(double seconds);
  // Adds the step's time to the timings of those that it fed.
  void ShareTime();
  absl::Status Retire(size_t active_index, StopReason reason);
  absl::Status Report(const AddedRequest& added);
  // An error of one request: told, and the request has failed, where the run has somebody to tell;
  // else returned.
  absl::Status OwnError(ActiveRequest& active, const absl::Status& error);

  // token_choice.cc
  // Keeps, chooses and retires by what the step has computed.
  absl::Status ReadStep();
  // Tells which tokens are held where some have left in the step.
  absl::Status TellLeft(ActiveRequest& active);
  // rows: [n_logit_rows, vocab_size] of what the step fed of the request. Whether it has ended.
  absl::StatusOr<bool> ReadRows(ActiveRequest& active, const FedTokens& fed,
                                const TensorView<const float, 2>& rows);
  // All of the request's prompt has been fed.
  absl::Status EndPrefill(ActiveRequest& active);
  // Scores the tokens of the prompt by the rows before them. rows: [fed.end - fed.begin,
  // vocab_size]
  absl::Status ScorePrompt(ActiveRequest& active, const FedTokens& fed,
                           const TensorView<const float, 2>& rows);
  // The request's next token by a row of logits: chosen, appended, told to stages and probes,
  // recorded. Called for one row after the other, as long as the request has not finished.
  // `proposed`: what was drafted for its place, or kNoDraft.
  absl::Status TakeToken(ActiveRequest& active, const float* row,
                         int32_t proposed);  // [vocab_size]
  // The part of it that may fail by the request's own fault. Fills the record's token_id, stages
  // and held_bytes. logits: [vocab_size]
  absl::Status Choose(ActiveRequest& active, std::span<const float> logits, StepRecord& record);
  // Fills the rest of the record, as far as it is wanted, and hands it out. logits: [vocab_size]
  absl::Status TellStep(ActiveRequest& active, std::span<const float> logits, StepRecord& record);
  // Takes the program's token in place of a choice (GenerateOptions::next_token).
  absl::Status TakeGiven(ActiveRequest& active, int64_t step);
  // Traces non-finite logits back to the first layer that made them.
  absl::Status NotFinite(ActiveRequest& active);

  LanguageModel& model_;
  RequestSamplers& samplers_;
  const CacheSnapshots* snapshots_;
  ProbeChain* const probes_;        // null: nobody looks
  Speculation* speculation_;        // null: nothing is drafted
  Checkpoints* const checkpoints_;  // null: there are none
  const GenerateSettings& settings_;
  const GenerateOptions& options_;
  RowRecorder recorder_;
  std::deque<AddedRequest> waiting_;
  std::vector<std::unique_ptr<ActiveRequest>> active_;
  std::vector<int> free_slots_;
  bool cache_full_ = false;  // for the next request, until one of the active ones ends
  // Reused by every step.
  std::vector<FedTokens> fed_;  // of active_, in its order
  std::vector<StepSequence> step_sequences_;
  std::vector<size_t> done_;
  std::vector<int32_t> listed_;
  PromptPace pace_;
  GenerateClock::time_point step_begin_;
  ObserverList observers_;
  std::unique_ptr<StepObserver> cache_debug_;
  std::unique_ptr<StepObserver> progress_;
  std::unique_ptr<PointRecorder> points_;
  std::unique_ptr<StepObserver> watch_;
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_LOOP_GENERATE_LOOP_H_
