#include "apps/serve/service.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "apps/common/terminal.h"
#include "apps/serve/access.h"
#include "apps/serve/answers/ollama_models.h"
#include "apps/serve/page_text.h"

namespace ng::serve {
namespace {

constexpr const char* kVersion = "/v1";
constexpr size_t kShortBody = size_t{64} << 10;
// The paths that go on with a name.
constexpr std::string_view kModels = "/v1/models";
constexpr std::string_view kView = "/view";

// Whether `path` is that of a name, which is then what is behind it.
bool GoesOn(std::string_view path, std::string_view route) {
  return path.starts_with(route) && path.substr(route.size()).starts_with('/');
}
std::string NameIn(const std::string& path, std::string_view route) {
  return path.substr(std::min(path.size(), route.size() + 1));
}

// A page, which may load nothing.
HttpReply PageReply(std::string html) {
  return {.content_type = "text/html; charset=utf-8",
          .body = std::move(html),
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                       "img-src data:; connect-src 'self'; frame-ancestors 'none'; "
                       "base-uri 'none'"}}};
}

// What refuses a request before it begins.
ApiError SubmitError(const absl::Status& status, const DiskPaths& paths) {
  ApiError error = ErrorOf(status, paths);
  if (IsBusy(status)) {
    error.status = kTooManyRequests;
    error.code = "queue_full";
  } else if (error.status == kServerError) {
    error.status = kUnavailable;
  }
  return error;
}

}  // namespace

struct Service::Route {
  std::string_view method;
  std::string_view path;
  bool needs_key;
  Answering answering;
};

const Service::Route* Service::FindRoute(std::string* path) {
  static constexpr Route kRoutes[] = {
      {"GET", "/", false, &Service::Page},
      {"GET", "/health", false, &Service::Health},
      {"GET", "/metrics", true, &Service::ShowMetrics},
      {"GET", kView, true, &Service::View},
      {"GET", kModels, true, &Service::Models},
      {"POST", "/v1/completions", true, &Service::AskFor<AnswerKind::kCompletion>},
      {"POST", "/v1/chat/completions", true, &Service::AskFor<AnswerKind::kChat>},
      {"POST", "/v1/responses", true, &Service::AskFor<AnswerKind::kResponse>},
      {"POST", "/v1/messages", true, &Service::AskFor<AnswerKind::kMessage>},
      {"POST", "/v1/messages/count_tokens", true, &Service::ComputeFor<CountTokens>},
      {"POST", "/v1/embeddings", true, &Service::Embeddings},
      {"POST", "/tokenize", true, &Service::ComputeFor<Tokenize>},
      {"POST", "/api/chat", true, &Service::AskFor<AnswerKind::kOllamaChat>},
      {"POST", "/api/generate", true, &Service::AskFor<AnswerKind::kOllamaGenerate>},
      {"POST", "/api/show", true, &Service::ComputeFor<OllamaShow>},
      {"POST", "/api/embed", true, &Service::Embeddings},
      {"POST", "/api/embeddings", true, &Service::Embeddings},
      {"GET", "/api/tags", true, &Service::Tell<OllamaTags>},
      {"GET", "/api/ps", true, &Service::Tell<OllamaRunning>},
      {"GET", "/api/version", true, &Service::Tell<OllamaVersion>},
  };
  for (const std::string& full : {*path, absl::StrCat(kVersion, *path)}) {
    for (const Route& route : kRoutes) {
      const bool has_names = route.path == kModels || route.path == kView;
      if (route.path != full && !(has_names && GoesOn(full, route.path))) continue;
      *path = full;
      return &route;
    }
  }
  return nullptr;
}

Service::Service(Engine& engine, Session& session, HttpServer& server, const Settings& settings,
                 int64_t max_tokens, ViewedEngine viewed)
    : views_(settings.views),
      kept_(static_cast<size_t>(settings.responses)),
      host_{engine, session, server, settings, metrics_, views_, kept_},
      viewed_(std::move(viewed)),
      max_tokens_(max_tokens),
      created_(static_cast<int64_t>(std::time(nullptr))) {}

void Service::Handle(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  if (auto error = CheckSource(request, host_.settings)) {
    return exchange->Reply(Refused(*exchange, *error));
  }
  std::string path = request.path;
  const Route* const route = FindRoute(&path);
  if (route == nullptr) {
    return exchange->Reply(Refused(*exchange, {.status = kNotFound,
                                               .message = "there is nothing at " + request.path,
                                               .code = "unknown_url"}));
  }
  // HEAD is GET; the connection sends no body then.
  if ((request.method == "HEAD" ? "GET" : request.method) != route->method) {
    const std::string method(route->method);
    HttpReply reply =
        Refused(*exchange,
                {.status = kNotAllowed,
                 .message = absl::StrCat(request.method, " ", request.path, ": must be ", method),
                 .code = "method_not_allowed"});
    reply.headers.emplace_back("Allow", method == "GET" ? "GET, HEAD" : method);
    return exchange->Reply(reply);
  }
  if (route->needs_key) {
    if (auto error = CheckKey(request, host_.settings)) {
      return exchange->Reply(Refused(*exchange, *error));
    }
  }
  (this->*route->answering)(exchange);
}

void Service::Page(const std::shared_ptr<Exchange>& exchange) {
  Json served = Json::object();
  served["model"] = host_.settings.model;
  served["needs_key"] = !host_.settings.key.empty();
  served["views"] = views_.kept();
  // Within a script a < may begin its end.
  const std::string data = absl::StrReplaceAll(JsonText(served), {{"<", "\\u003c"}});
  exchange->Reply(PageReply(absl::StrCat(std::string(kPageBefore), "<script>const served = ", data,
                                         ";</script>", std::string(kPageAfter))));
}

void Service::View(const std::shared_ptr<Exchange>& exchange) {
  if (!views_.kept()) {
    return exchange->Reply(ErrorReply({.status = kNotFound,
                                       .message = "answers can be looked into where the server was "
                                                  "started with --view",
                                       .code = "no_views"}));
  }
  const std::string name = NameIn(exchange->request().path, kView);
  // Of an answer to one prompt there is one.
  auto answer = views_.Find(name.find('/') == std::string::npos ? name + "/0" : name);
  if (answer == nullptr) {
    return exchange->Reply(
        ErrorReply({.status = kNotFound,
                    .message = absl::StrCat("there is no answer ", name, " among the last ",
                                            host_.settings.views, ", which serve.views keeps"),
                    .code = "unknown_answer"}));
  }
  Work(exchange, long_reader_, [this, exchange, answer = std::move(answer)](Reading&) {
    const absl::StatusOr<std::string> page = ViewPage(host_.engine, viewed_, *answer);
    ReplyLater(exchange, page.ok() ? PageReply(*page)
                                   : ErrorReply(ErrorOf(page.status(), host_.settings.paths)));
  });
}

void Service::Health(const std::shared_ptr<Exchange>& exchange) {
  if (draining_) {
    return exchange->Reply({.status = kUnavailable, .body = "{\"status\": \"ending\"}\n"});
  }
  exchange->Reply({.body = "{\"status\": \"ok\"}\n"});
}

void Service::ShowMetrics(const std::shared_ptr<Exchange>& exchange) {
  exchange->Reply({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                   .body = MetricsText(metrics_, host_.session.counts(), host_.server.counts())});
}

Json Service::ModelJson(const std::string& name) const {
  Json model = Json::object();
  model["id"] = name;
  model["object"] = "model";
  model["created"] = created_;
  model["owned_by"] = "ng";
  model["max_model_len"] = max_tokens_;
  return model;
}

void Service::Models(const std::shared_ptr<Exchange>& exchange) {
  std::string path = exchange->request().path;
  FindRoute(&path);
  if (GoesOn(path, kModels)) {
    const std::string name = NameIn(path, kModels);
    if (auto error = CheckModel(name, host_.settings)) {
      return exchange->Reply(ErrorReply(*error));
    }
    return exchange->Reply({.body = JsonText(ModelJson(name)) + "\n"});
  }
  Json json = Json::object();
  json["object"] = "list";
  json["data"] = Json::array();
  for (const std::string& name : host_.settings.models) json["data"].push_back(ModelJson(name));
  exchange->Reply({.body = JsonText(json) + "\n"});
}

void Service::Embeddings(const std::shared_ptr<Exchange>& exchange) {
  exchange->Reply(
      Refused(*exchange,
              {.message = "models that generate text give no embeddings; none that ng runs pools",
               .code = "unsupported"}));
}

void Service::Compute(const std::shared_ptr<Exchange>& exchange,
                      Parsed<Json> (*compute)(const std::string& body, const PlanParts& parts)) {
  Work(exchange, ReaderOf(*exchange), [this, exchange, compute](Reading&) {
    const Parsed<Json> json = compute(exchange->request().body, Parts());
    const auto* const error = std::get_if<ApiError>(&json);
    ReplyLater(exchange, error != nullptr
                             ? Refused(*exchange, *error)
                             : HttpReply{.body = JsonText(std::get<Json>(json)) + "\n"});
  });
}

void Service::Ask(const std::shared_ptr<Exchange>& exchange, AnswerKind kind) {
  const AskedOnce asked = {.exchange = exchange,
                           .at = std::chrono::steady_clock::now(),
                           .id = absl::StrCat(created_, "-", ++n_asked_)};
  Work(exchange, ReaderOf(*exchange),
       [this, asked, kind](Reading& reading) { Submit(asked, kind, reading); });
}

void Service::Submit(const AskedOnce& asked, AnswerKind kind, Reading& reading) {
  Parsed<AnswerPlan> plan = PlanAnswer(kind, asked.exchange->request().body, Parts());
  if (const auto* const error = std::get_if<ApiError>(&plan)) {
    return ReplyLater(asked.exchange, Refused(*asked.exchange, *error));
  }
  NoteInert(std::get<AnswerPlan>(plan).inert);
  NoteReport(std::get<AnswerPlan>(plan).not_written);
  if (reading.settled.exchange(true)) return;
  if (const Json& reply = std::get<AnswerPlan>(plan).at_once; !reply.is_null()) {
    return ReplyLater(asked.exchange, {.body = JsonText(reply) + "\n"});
  }
  const auto answer = std::make_shared<Answer>(host_, asked, std::get<AnswerPlan>(std::move(plan)));
  std::vector<SessionRequest> requests = answer->Requests();
  for (SessionRequest& request : requests) {
    request.on_report = [this](const std::string& line) { NoteReport(line); };
  }
  const absl::StatusOr<int64_t> id = host_.session.Submit(std::move(requests));
  host_.server.Post([this, answer, id] {
    if (!id.ok()) return answer->Fail(SubmitError(id.status(), host_.settings.paths));
    answer->Begin(*id);
  });
}

void Service::NoteInert(const std::vector<std::string>& fields) {
  const std::lock_guard lock(noted_mutex_);
  for (const std::string& field : fields) {
    if (!noted_.insert(field).second || HowLoud() == Loudness::kQuiet) continue;
    WriteStderr(absl::StrCat("ng-serve: requests have the field ", field,
                             ", which changes nothing in an answer here\n"));
  }
}

void Service::NoteReport(const std::string& line) {
  constexpr size_t kMostReports = 1000;  // that are told apart
  if (line.empty()) return;
  const std::lock_guard lock(noted_mutex_);
  if (reports_.size() >= kMostReports) reports_.clear();
  if (!reports_.insert(line).second || HowLoud() == Loudness::kQuiet) return;
  WriteStderr(absl::StrCat("ng-serve: ", host_.settings.paths.Hidden(line), "\n"));
}

Worker& Service::ReaderOf(const Exchange& exchange) {
  return exchange.request().body.size() > kShortBody ? long_reader_ : short_reader_;
}

void Service::Work(const std::shared_ptr<Exchange>& exchange, Worker& worker,
                   std::function<void(Reading& reading)> work) {
  const auto reading = std::make_shared<Reading>();
  reading->exchange = exchange;
  readings_.insert(reading);
  exchange->OnGone([weak = std::weak_ptr(reading)] {
    if (const auto gone = weak.lock()) gone->settled = true;
  });
  worker.Do([this, reading, work = std::move(work)] {
    try {
      if (!reading->settled) work(*reading);
    } catch (const std::exception& failed) {
      ReplyLater(
          reading->exchange,
          Refused(*reading->exchange,
                  {.status = kServerError, .message = host_.settings.paths.Hidden(failed.what())}));
    }
    host_.server.Post([this, reading] { readings_.erase(reading); });
  });
}

void Service::Drain() {
  draining_ = true;
  for (const std::shared_ptr<Reading>& reading : readings_) {
    if (!reading->settled.exchange(true)) {
      reading->exchange->Reply(Refused(*reading->exchange, ServerEnds()));
    }
  }
}

void Service::ReplyLater(const std::shared_ptr<Exchange>& exchange, HttpReply reply) {
  host_.server.Post([exchange, reply = std::move(reply)] { exchange->Reply(reply); });
}

}  // namespace ng::serve
