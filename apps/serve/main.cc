// ng-serve: a model for clients of OpenAI's API.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "apps/common/about.h"
#include "apps/common/answer_room.h"
#include "apps/common/terminal.h"
#include "apps/serve/answers/api_error.h"
#include "apps/serve/command_line.h"
#include "apps/serve/http/server.h"
#include "apps/serve/request_log.h"
#include "apps/serve/served_engine.h"
#include "apps/serve/service.h"
#include "apps/serve/settings.h"
#include "apps/view/run_facts.h"
#include "ng/config.h"
#include "ng/engine.h"
#include "ng/session.h"

namespace ng::serve {
namespace {

constexpr const char* kName = "ng-serve";

// Sets `stop` when a signal comes while the model loads. Later signals are for the server.
class SignalsStop {
 public:
  SignalsStop(const std::atomic<bool>& signalled, std::atomic<bool>* stop)
      : thread_([&signalled, stop](const std::stop_token& loaded) {
          constexpr std::chrono::milliseconds kLookAgain(10);
          while (!loaded.stop_requested() && !signalled) std::this_thread::sleep_for(kLookAgain);
          if (!loaded.stop_requested()) *stop = true;
        }) {}

 private:
  std::jthread thread_;
};

struct LoadedEngine {
  std::unique_ptr<Engine> engine;
  RunNeeds needs;
  RunPlan plan;
};

// Opens and loads the engine; a signal interrupts it.
absl::StatusOr<LoadedEngine> LoadEngine(EngineOptions options, std::atomic<bool>* stop) {
  const SignalsStop signals(*options.stop, stop);
  options.stop = stop;
  LoadedEngine loaded;
  NG_ASSIGN_OR_RETURN(loaded.engine, OpenServed(options, &loaded.needs));
  NG_ASSIGN_OR_RETURN(loaded.plan, loaded.engine->Plan(loaded.needs));
  NG_RETURN_IF_ERROR(loaded.engine->Load(loaded.needs));
  return loaded;
}

std::string Greeting(const Settings& settings, int port, const RunPlan& plan) {
  const bool v6 = settings.address.find(':') != std::string::npos;
  const std::string address = v6 ? absl::StrCat("[", settings.address, "]") : settings.address;
  const bool is_less = SequenceShare(plan) < plan.max_tokens;
  const std::string shared =
      is_less ? absl::StrCat(", ", SharedTokens(plan), " together") : std::string();
  return absl::StrCat(kName, ": ", settings.model, " at http://", address, ":", port, ", ",
                      plan.max_sequences, " answers at a time of up to ", plan.max_tokens,
                      " tokens each", shared, "\n");
}

// What it waits for when it is to end. On a terminal "^C" stands in the line.
std::string Farewell(int64_t n_unanswered) {
  std::string line_end = isatty(STDERR_FILENO) != 0 ? "\n" : "";
  if (n_unanswered == 0) return line_end;
  return absl::StrCat(line_end, kName, ": ends when ", n_unanswered,
                      n_unanswered == 1 ? " answer has" : " answers have",
                      " ended; Ctrl-C again ends it at once\n");
}

// What would be served, and what it would take.
absl::Status DryRun(const EngineOptions& options) {
  RunNeeds needs;
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, OpenServed(options, &needs));
  NG_ASSIGN_OR_RETURN(const std::string plan, engine->Describe(needs, Engine::Detail::kScreen));
  return WriteStdout(plan);
}

// Serves until the first signal, and then until what was asked is answered.
absl::Status Serve(const EngineOptions& options, ProgressBar& bar, bool* drained) {
  std::atomic<bool> stop = false;
  NG_ASSIGN_OR_RETURN(const LoadedEngine loaded, LoadEngine(options, &stop));
  const auto& [engine, needs, plan] = loaded;
  bar.Clear();
  NG_ASSIGN_OR_RETURN(Settings settings, ReadSettings(engine->config()));
  settings.marks = plan.checkpoints > 0;
  settings.shared_tokens = SequenceShare(plan);
  settings.weight_bytes = plan.weights.bytes();
  settings.weights = std::string(plan.step.weights);
  NG_ASSIGN_OR_RETURN(const PluginHost host, Engine::FindPlugins(options));
  for (const PluginFile& file : host.files()) settings.paths.Add(file.path);
  // Asked for before the session has the engine.
  ViewedEngine viewed = {.facts = {}, .config_file = options.config_file};
  if (settings.views > 0) {
    NG_ASSIGN_OR_RETURN(viewed.facts, view::RunFacts(*engine, kName));
  }
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> server,
                      HttpServer::Listen(settings.address, settings.port, settings.http));
  NG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                      Session::Start(*engine, {.max_waiting = settings.max_queued}));
  Service service(*engine, *session, *server, settings, needs.max_tokens, std::move(viewed));
  if (settings.log != Settings::Log::kNone) {
    server->WatchAnswers([&](const Answered& answered) {
      const auto line = settings.log == Settings::Log::kJson ? JsonLogLine : TextLogLine;
      WriteStderr(line(answered, settings.model, std::time(nullptr)));
    });
  }
  const auto drain = [&] {
    service.Drain();
    session->Drain();
    server->Drain();
  };
  server->WhenReadable(SignalPipe(), [&] {
    WriteStderr(Farewell(server->n_unanswered()));
    drain();
  });
  absl::Status ended;
  std::thread waiter([&] {
    ended = session->Wait();
    // By an error: what can be answered still is.
    if (!ended.ok()) server->Post(drain);
  });
  absl::Cleanup join = [&] {
    session->Stop();
    waiter.join();
  };
  WriteStderr(Greeting(settings, server->port(), plan));
  server->Run([&](const std::shared_ptr<Exchange>& exchange) { service.Handle(exchange); },
              [](int status, const std::string& message, const std::string& path) {
                return ErrorReply({.status = status, .message = message}, ErrorStyleOf(path));
              });
  session->Drain();
  waiter.join();
  std::move(join).Cancel();
  *drained = ended.ok();
  // It has been refused, and may take seconds.
  if (*drained && service.reads()) _exit(0);
  return ended;
}

int Main(int argc, const char* const* argv) {
  HoldStandardStreams();
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return Fail(kName, line.status());
  bool drained = false;
  const int code = RunAsked(
      line->about, TheManual(), line->engine, [&](const EngineOptions& options, ProgressBar& bar) {
        return line->dry_run ? DryRun(options) : Serve(options, bar, &drained);
      });
  // The signal that it waits for is no interruption.
  return drained ? 0 : code;
}

}  // namespace
}  // namespace ng::serve

int main(int argc, char** argv) {
  return ng::RunProgram(ng::serve::kName, ng::serve::Main, argc, argv);
}
