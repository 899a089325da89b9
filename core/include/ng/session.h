// Session: an engine that answers requests as they come, on threads of its own; for servers.
//
//   ng::RunNeeds needs;                   // room for 8 requests of 2048 tokens each
//   needs.max_sequences = 8;
//   needs.max_tokens = 2048;
//   NG_RETURN_IF_ERROR(engine->Load(needs));
//   NG_ASSIGN_OR_RETURN(auto session, ng::Session::Start(*engine, {.max_waiting = 64}));
//   NG_ASSIGN_OR_RETURN(int64_t id, session->Submit(std::move(requests)));   // from any thread
//   session->Cancel(id);
//   session->Drain();                     // nothing new; what was accepted ends
//   NG_RETURN_IF_ERROR(session->Wait());
//
// Every step feeds all requests that run: the prompts of some, single tokens of others. Of prompts
// it feeds beside those no more than takes a fraction of a second. A request
// joins at the next step when the cache has room for all it may come to hold, in the order of
// Submit. Its answer has the same bits as if it had been alone.
//
// A request with settings of its own needs a sampler chain, which a second thread makes where no
// other request has it yet. Nobody waits for it but this request, which is behind those that were
// ready before. Its making ends with it (Cancel, Stop).
//
// Errors: what is wrong with one request ends that request alone (its settings, NaN in its logits,
// a stage of its sampler chain). What is wrong with the engine (a step that fails, a probe, memory)
// ends all requests and the session.
//
// Thread: all functions may be called from any thread, the callbacks too unless they are said not
// to. While a session lives its engine belongs to it: nothing of the engine may be called but
// CheckRequest, Encode, EncodeMessage, EncodeConversation, ContextOf, Decode and what reads
// constant facts (config, model_shape, stop_ids, special_tokens, template_date, max_prompt_bytes
// ...).
#ifndef NG_SESSION_H_
#define NG_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ng/engine.h"
#include "ng/request.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

// What an engine is asked, and whom to tell. GenerateRequest says what is the request's own:
//
//   settings              "sampler.top_k.k=40", ...: over those of the config
//   draw                  the number of its draws: 0 gives what ng-run gives for one prompt, and
//                         0 to n-1 are n answers to one prompt as ng-run --prompts gives them
//   top_logprobs          of each token chosen, with the most probable others
//   prompt_top_logprobs   the same of the prompt's tokens
//   steps                 the model's words at each token chosen: entropy, the most probable
//
// `sequence`, `load_cache` and `save_cache` must not be set.
//
// The callbacks may be empty. They are called on the session's thread, between two steps, and what
// they are given is borrowed for the call. They must be quick, because every request waits for
// them. They may call Submit, Cancel, Drain, Stop and counts; not Wait, and they must not destroy
// the session.
struct SessionRequest {
  GenerateRequest request;
  // Of the prompt's tokens so many will probably begin later prompts, which need not begin with the
  // rest: where the rendering of a conversation ends without what asks for the answer. What is
  // computed up to there is kept for them, where the model and the cache need to be told
  // (cache.checkpoints). It changes no bit. 0: nobody knows.
  int64_t mark = 0;
  // A stage of a sampler chain that was made for this request has something to say of it: its name
  // and SamplerStage::Report, a line.
  std::function<void(const std::string& line)> on_report;
  // All of the prompt has been fed: prompt_logprobs and the timings of the prompt are there. Not
  // called where nothing is to be computed.
  std::function<void(const Completion& so_far)> on_prompt;
  // A token was chosen. `held_bytes` as StepRecord says: text that must not be shown yet.
  std::function<void(const StepRecord& record)> on_token;
  // The request has ended; called once for each request that Submit has accepted. Not ok:
  // stop_reason is kError, and the completion holds what there was. kInterrupted: by Cancel or
  // Stop.
  std::function<void(const absl::Status& status, Completion& completion)> on_done;
};

struct SessionOptions {
  // How many requests may wait for their beginning, beside those that run. At least 1.
  int max_waiting = 64;
};

// What a session has done so far; all but the first two only grow.
struct SessionCounts {
  int64_t waiting = 0;         // requests accepted that have not begun
  int64_t active = 0;          // requests that run
  int64_t accepted = 0;        // requests
  int64_t refused = 0;         // because too many waited
  int64_t completed = 0;       // by a stop reason of their own
  int64_t cancelled = 0;       // by Cancel or Stop
  int64_t failed = 0;          // by an error
  int64_t steps = 0;           //
  int64_t prefill_tokens = 0;  // tokens of prompts that were computed
  int64_t shared_tokens = 0;   // tokens of prompts that the cache had from others
  int64_t decode_tokens = 0;   // tokens that were chosen
  double busy_s = 0.0;         // in steps
};

class Session {
 public:
  // Takes the engine and starts the threads. The engine must outlive the session. Errors:
  // RuntimeError before Load, and where the system gives no thread; UsageError for options.
  static absl::StatusOr<std::unique_ptr<Session>> Start(Engine& engine,
                                                        const SessionOptions& options);
  // As Stop and Wait.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Accepts all of the requests, or none. Returns the id of the first; each further one has the id
  // behind it. Errors, at once: those of Engine::CheckRequest; LimitError for a request that is
  // longer than Load was told of; IsBusy where too many wait; RuntimeError after Drain or Stop, and
  // the session's own error when it has ended by one. Errors of settings come by on_done, before
  // anything is computed.
  absl::StatusOr<int64_t> Submit(std::vector<SessionRequest> requests);

  // Ends a request before the next step, with kInterrupted, and on_done is called. Nothing happens
  // for an id that has ended or never was.
  void Cancel(int64_t id);

  // From now on nothing is accepted. What was accepted is answered; then the session has ended.
  // Requests whose sampler chain is not made within half a second end with kInterrupted.
  void Drain();
  // From now on nothing is accepted, and what was accepted ends with kInterrupted as soon as the
  // step that runs lets it: between two layers.
  void Stop();
  // Returns when the session has ended, with its error if it ended by one. A session ends after
  // Drain, after Stop, by an error, or when the stop flag of EngineOptions is set.
  absl::Status Wait();

  // Since Start, at the end of the last step.
  SessionCounts counts() const;

 private:
  struct __attribute__((visibility("hidden"))) State;
  explicit Session(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Whether a request was refused because too many wait: it may be asked again later.
bool IsBusy(const absl::Status& status);

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_SESSION_H_
