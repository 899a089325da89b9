// Answer: a request for text on its way: from the session's tokens to what the client reads.
//
// Thread: the server's; Requests, before anything else, on any. The session's callbacks come on
// another thread and are brought to the server's.
#ifndef NG_APPS_SERVE_ANSWERS_ANSWER_H_
#define NG_APPS_SERVE_ANSWERS_ANSWER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/serve/answers/answer_parts.h"
#include "apps/serve/answers/answer_plan.h"
#include "apps/serve/answers/answer_text.h"
#include "apps/serve/answers/forms/answer_form.h"
#include "apps/serve/answers/forms/openai_choices.h"
#include "apps/serve/http/exchange.h"
#include "apps/serve/http/server.h"
#include "apps/serve/metrics.h"
#include "apps/serve/views.h"
#include "ng/engine.h"
#include "ng/session.h"

namespace ng::serve {

// What answers are made with. Borrowed: all of it outlives them.
struct AnswerHost {
  const Engine& engine;
  Session& session;
  HttpServer& server;
  const Settings& settings;
  Metrics& metrics;
  Views& views;
  KeptResponses& kept;
};

// The request that is answered.
struct AskedOnce {
  std::shared_ptr<Exchange> exchange;
  std::chrono::steady_clock::time_point at;
  std::string id;  // of the answer
};

class Answer : public std::enable_shared_from_this<Answer> {
 public:
  Answer(const AnswerHost& host, AskedOnce asked, AnswerPlan plan);

  // For Session::Submit: one for each choice.
  std::vector<SessionRequest> Requests();
  // The session has accepted them; the first has this id.
  void Begin(int64_t first_id);
  void Fail(const ApiError& error);

 private:
  // What of the session's records is needed, taken along to the server's thread.
  struct TokenEvent {
    TokenLogprob token;
    int64_t held_bytes = 0;
    std::optional<StepRecord> step = {};  // where answers can be looked into
  };
  struct PromptEvent {
    std::vector<TokenLogprob> logprobs;
    int64_t shared_tokens = 0;
  };
  struct DoneEvent {
    absl::Status status;
    StopReason reason = StopReason::kError;
    int64_t held_bytes = 0;
    PromptEvent prompt;
    Timings timings;
  };
  struct ChoiceState {
    explicit ChoiceState(bool with_tokens) : text(with_tokens) {}
    AnswerText text;
    std::optional<AnswerParts> parts;  // where the text has parts
    Choice whole;                      // what there is so far
    std::vector<ShownToken> tokens;    // likewise, without a stream
    std::string held;  // the end of its text, as far as it may be a text that ends it
    bool called = false;
    std::vector<int32_t> ids;  // that are not sent yet
    std::vector<StepRecord> steps;
    int64_t n_tokens = 0;      // generated
    int64_t n_characters = 0;  // sent
    int64_t cached_tokens = 0;
    std::optional<StopReason> reason;  // it has ended
    bool echoed = false;
    bool begun = false;  // the client has a piece of it
  };

  void OnPrompt(size_t index, const PromptEvent& event);
  void OnToken(size_t index, TokenEvent& event);
  void OnDone(size_t index, const DoneEvent& event);
  void OnGone();
  void OnTimeout();
  // Now and then, while a stream goes on.
  void OnTick();

  const PlannedPrompt& PromptOf(size_t index) const;
  GenerateRequest RequestOf(size_t index) const;
  bool Streams() const { return plan_.fields.stream; }
  ShownToken Shown(int32_t id) const;
  ShownToken ShownWith(const TokenLogprob& token) const;
  // The prompt as the beginning of the text, once, where that is asked for.
  void Echo(size_t index, const PromptEvent& event);
  void Emit(size_t index, AnswerPiece piece);
  // Adds a part to the whole, and to the stream if there is one.
  void Give(size_t index, Choice part, std::vector<ShownToken> tokens);
  // The same of an answer in parts; the piece's tokens come with the first of them.
  void EmitParts(size_t index, AnswerPiece piece);
  // What a part adds to its choice.
  Choice PartOf(size_t index, AnswerDelta delta) const;
  void Send(size_t index, Choice choice);
  void BeginStream();
  void Write(std::string bytes);
  void AwaitTick();
  // The time of an answer begins when its prompt is read.
  void AwaitTimeout();
  // Lets the timers go.
  void Rest();
  void Finish();
  void CancelAll();
  // What there is of it can be looked into from now on.
  void KeepViews();
  Usage UsageOfAll() const;
  // For who watches the server.
  void Count() const;

  const AnswerHost& host_;
  AskedOnce asked_;
  AnswerPlan plan_;
  std::string name_;  // the id that the client is told
  std::unique_ptr<AnswerForm> form_;
  std::vector<ChoiceState> choices_;
  std::optional<int64_t> first_id_;
  std::shared_ptr<void> timer_;
  std::shared_ptr<void> tick_;
  bool wrote_ = false;  // since the last tick
  Timings timings_;     // of the last choice that has ended
  size_t n_done_ = 0;
  bool streaming_ = false;  // its beginning is sent
  bool over_ = false;       // nothing more is sent
};

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_ANSWER_H_
