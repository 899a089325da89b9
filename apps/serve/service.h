// Service: what can be asked of the server, by method and path, and who answers it.
//
// Thread: the server's.
#ifndef NG_APPS_SERVE_SERVICE_H_
#define NG_APPS_SERVE_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "apps/serve/answers/answer.h"
#include "apps/serve/http/exchange.h"
#include "apps/serve/worker.h"

namespace ng::serve {

class Service {
 public:
  // Borrows all but the last. `max_tokens`: of a prompt and its answer together.
  Service(Engine& engine, Session& session, HttpServer& server, const Settings& settings,
          int64_t max_tokens, ViewedEngine viewed);

  void Handle(const std::shared_ptr<Exchange>& exchange);
  // From now on /health says that the server ends. What is not read yet is refused.
  void Drain();
  // Whether something is still read. After Drain its answer is for nobody.
  bool reads() const { return short_reader_.busy() || long_reader_.busy(); }

 private:
  using Answering = void (Service::*)(const std::shared_ptr<Exchange>& exchange);
  struct Route;
  // A request that a worker has, or waits for.
  struct Reading {
    std::shared_ptr<Exchange> exchange;
    // Set by who first decides what becomes of it: its client has gone, the server ends, or it is
    // read and goes to the session.
    std::atomic<bool> settled = false;
  };

  // `path` becomes that of the table: /v1 may be left out.
  static const Route* FindRoute(std::string* path);

  void View(const std::shared_ptr<Exchange>& exchange);
  void Page(const std::shared_ptr<Exchange>& exchange);
  void Health(const std::shared_ptr<Exchange>& exchange);
  void ShowMetrics(const std::shared_ptr<Exchange>& exchange);
  void Models(const std::shared_ptr<Exchange>& exchange);
  void Embeddings(const std::shared_ptr<Exchange>& exchange);
  // One for each kind of answer.
  template <AnswerKind kKind>
  void AskFor(const std::shared_ptr<Exchange>& exchange) {
    Ask(exchange, kKind);
  }
  // One for each that is computed from the body; and what is known without one.
  template <Parsed<Json> (*kCompute)(const std::string& body, const PlanParts& parts)>
  void ComputeFor(const std::shared_ptr<Exchange>& exchange) {
    Compute(exchange, kCompute);
  }
  template <Json (*kTell)(const PlanParts& parts)>
  void Tell(const std::shared_ptr<Exchange>& exchange) {
    exchange->Reply({.body = JsonText(kTell(Parts())) + "\n"});
  }

  PlanParts Parts() {
    return {host_.engine, host_.settings, max_tokens_, kept_, known_tools_, closed_tools_};
  }
  // Answers with what is made of the body on a worker's thread.
  void Compute(const std::shared_ptr<Exchange>& exchange,
               Parsed<Json> (*compute)(const std::string& body, const PlanParts& parts));
  // In the words of the API that was asked.
  static HttpReply Refused(const Exchange& exchange, const ApiError& error) {
    return ErrorReply(error, ErrorStyleOf(exchange.request().path));
  }
  Json ModelJson(const std::string& name) const;
  // Names what was passed over in a request, each field once.
  void NoteInert(const std::vector<std::string>& fields);
  // What a sampler's stage says of a request, or its plan: each line once. Thread: any.
  void NoteReport(const std::string& line);
  // Plans and submits an answer on a worker's thread.
  void Ask(const std::shared_ptr<Exchange>& exchange, AnswerKind kind);
  void Submit(const AskedOnce& asked, AnswerKind kind, Reading& reading);
  // Does it on the thread of a worker, unless it is settled before; what it throws is an answer
  // too.
  void Work(const std::shared_ptr<Exchange>& exchange, Worker& worker,
            std::function<void(Reading& reading)> work);
  // A long body takes long to read, which short ones do not wait for.
  Worker& ReaderOf(const Exchange& exchange);
  // From a worker's thread.
  void ReplyLater(const std::shared_ptr<Exchange>& exchange, HttpReply reply);

  Metrics metrics_;
  Views views_;
  KeptResponses kept_;
  // What clients send with every request, each up to some megabytes.
  KnownTools known_tools_{8, size_t{4} << 20};
  ClosedTools closed_tools_{8, size_t{4} << 20};
  AnswerHost host_;
  ViewedEngine viewed_;
  int64_t max_tokens_;
  int64_t created_;  // Unix time
  int64_t n_asked_ = 0;
  std::mutex noted_mutex_;
  std::set<std::string> noted_;
  std::set<std::string> reports_;
  std::set<std::shared_ptr<Reading>> readings_;
  bool draining_ = false;
  // The last: they use the others.
  Worker short_reader_;
  Worker long_reader_;
};

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_SERVICE_H_
