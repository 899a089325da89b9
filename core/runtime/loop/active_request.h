// What the generate loop knows of a request that has been added to it, and of one that runs.
#ifndef NG_CORE_RUNTIME_LOOP_ACTIVE_REQUEST_H_
#define NG_CORE_RUNTIME_LOOP_ACTIVE_REQUEST_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "core/runtime/assembly/request_samplers.h"
#include "core/runtime/loop/checkpoints.h"
#include "core/runtime/watch/point_recorder.h"
#include "core/runtime/watch/row_recorder.h"
#include "ng/request.h"

namespace ng {

using GenerateClock = std::chrono::steady_clock;

inline double SecondsBetween(GenerateClock::time_point from, GenerateClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// A request of the loop. Both are borrowed until it has been reported.
struct AddedRequest {
  int index = 0;  // names it in what the loop reports
  const GenerateRequest* request = nullptr;
  Completion* completion = nullptr;
  // Of the prompt's tokens so many may begin later prompts that do not begin with all of them; 0:
  // nobody knows.
  int64_t mark = 0;
  // What chooses its tokens. Without a chain: what its settings say, made where it begins.
  RequestSampler sampler = {};
};

// A request between admission and retirement.
struct ActiveRequest {
  AddedRequest added;
  int slot = 0;  // in its sampler chain
  RequestSampler sampler;
  SequenceId sequence = 0;
  bool owns_sequence = false;  // it was opened for this request, and is closed with it
  int64_t max_new_tokens = 0;
  int64_t n_answered = 0;      // of its request
  int32_t adapters = 0;        // StepSequence::adapters
  int64_t room = 0;            // the most ids that the sequence can hold
  int64_t first = 0;           // the index of the id at its position 0
  int64_t n_shared = 0;        // ids that its sequence began with
  int64_t n_loaded = 0;        // ids behind them that a snapshot had
  int64_t n_gone = 0;          // that have left the cache, as far as it has been told
  bool last_row_pass = false;  // generation is over, the last id's rows are still wanted
  StopReason stop_reason = StopReason::kMaxNewTokens;
  GenerateClock::time_point admitted;
  GenerateClock::time_point prefilled;
  bool prefill_done = false;
  bool staged = false;       // the sampler's stages were told of it
  bool probed = false;       // the probes were told of it
  bool drafted_for = false;  // the drafter was told of it
  bool may_draft = false;    // this step feeds its newest token and what is drafted behind it
  KeptRows kept;
  KeptPoints kept_points;
  // Places of the prompt at which checkpoints are made, rising; those that are made already, or are
  // where its sequence began, lie up to `checked`.
  std::array<int64_t, 3> marks = {};
  int64_t checked = 0;
  bool marked = false;                              // checkpoints are made of it
  Checkpoints::Number moving = Checkpoints::kNone;  // the one that moves along with the answer
  double* share_s = nullptr;  // of its timings, what the step counts for; null: nothing

  int index() const { return added.index; }
  const GenerateRequest& request() const { return *added.request; }
  Completion& completion() const { return *added.completion; }
  std::vector<int32_t>& ids() const { return completion().ids; }
  int64_t n_ids() const { return static_cast<int64_t>(ids().size()); }
  std::span<int32_t> held_ids() const {
    return std::span(ids()).subspan(static_cast<size_t>(first));
  }
  int64_t n_generated() const { return n_ids() - completion().prompt_len; }
  bool failed() const { return stop_reason == StopReason::kError; }
  // No token is chosen any more.
  bool finished() const {
    return stop_reason != StopReason::kMaxNewTokens || n_generated() >= max_new_tokens;
  }
  // The next token, which a step has brought.
  void Append(int32_t token) const {
    ids().push_back(token);
    completion().timings.decode_s = SecondsBetween(prefilled, GenerateClock::now());
    completion().timings.decode_tokens = n_generated() - 1;
  }
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_LOOP_ACTIVE_REQUEST_H_
