#include "apps/serve/metrics.h"

#include "absl/strings/str_cat.h"

namespace ng::serve {
namespace {

std::string Head(const std::string& name, const std::string& help, const char* type) {
  return absl::StrCat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

// Collects figures: those that only grow, and those that say what is now.
class Figures {
 public:
  void Counter(const std::string& name, const std::string& help, int64_t value) {
    absl::StrAppend(&text_, Head(name, help, "counter"), name, " ", value, "\n");
  }
  void Gauge(const std::string& name, const std::string& help, int64_t value) {
    absl::StrAppend(&text_, Head(name, help, "gauge"), name, " ", value, "\n");
  }
  void Append(const std::string& lines) { text_ += lines; }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AppendSession(const SessionCounts& session, Figures* figures) {
  figures->Gauge("ng_answers_waiting", "Answers that have not begun.", session.waiting);
  figures->Gauge("ng_answers_active", "Answers in progress.", session.active);
  figures->Counter("ng_answers_accepted_total", "Answers asked for.", session.accepted);
  figures->Counter("ng_answers_refused_total", "Refused: too many waited.", session.refused);
  figures->Counter("ng_answers_completed_total", "Ended by themselves.", session.completed);
  figures->Counter("ng_answers_cancelled_total", "Ended because the client left, or by a limit.",
                   session.cancelled);
  figures->Counter("ng_answers_failed_total", "Ended by an error.", session.failed);
  figures->Counter("ng_steps_total", "Steps of the model.", session.steps);
  figures->Counter("ng_prompt_tokens_total", "Tokens of prompts that were computed.",
                   session.prefill_tokens);
  figures->Counter("ng_shared_tokens_total", "Tokens of prompts that the cache had already.",
                   session.shared_tokens);
  figures->Counter("ng_generated_tokens_total", "Tokens that were chosen.", session.decode_tokens);
  const std::string busy = "ng_busy_seconds_total";
  figures->Append(
      absl::StrCat(Head(busy, "Time in steps.", "counter"), busy, " ", session.busy_s, "\n"));
}

void AppendHttp(const HttpCounts& http, Figures* figures) {
  figures->Gauge("ng_http_connections", "Connections that are open.", http.connections);
  figures->Counter("ng_http_connections_total", "Connections since the start.", http.accepted);
  figures->Counter("ng_http_connections_refused_total", "Closed because too many were open.",
                   http.refused);
  figures->Counter("ng_http_slow_readers_total", "Closed because they did not read.",
                   http.slow_readers);
  figures->Counter("ng_http_gone_total", "Clients that left before their answer had ended.",
                   http.gone);
  const std::string replies = "ng_http_replies_total";
  std::string lines = Head(replies, "Answers by their status.", "counter");
  for (const auto& [status, n] : http.replies) {
    absl::StrAppend(&lines, replies, "{code=\"", status, "\"} ", n, "\n");
  }
  figures->Append(lines);
}

}  // namespace

void Histogram::Add(double seconds) {
  for (size_t i = 0; i < kBounds.size(); ++i) counts_[i] += seconds <= kBounds[i] ? 1 : 0;
  ++n_;
  sum_ += seconds;
}

std::string Histogram::Text(const std::string& name, const std::string& help) const {
  std::string text = Head(name, help, "histogram");
  for (size_t i = 0; i < kBounds.size(); ++i) {
    absl::StrAppend(&text, name, "_bucket{le=\"", kBounds[i], "\"} ", counts_[i], "\n");
  }
  absl::StrAppend(&text, name, "_bucket{le=\"+Inf\"} ", n_, "\n", name, "_sum ", sum_, "\n", name,
                  "_count ", n_, "\n");
  return text;
}

std::string MetricsText(const Metrics& metrics, const SessionCounts& session,
                        const HttpCounts& http) {
  Figures figures;
  AppendSession(session, &figures);
  AppendHttp(http, &figures);
  figures.Append(
      metrics.first_token.Text("ng_first_token_seconds", "From a request to its first token."));
  figures.Append(metrics.answer.Text("ng_answer_seconds", "From a request to its end."));
  return figures.Take();
}

}  // namespace ng::serve
