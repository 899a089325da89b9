#include "apps/serve/http/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <ctime>
#include <exception>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/serve/http/content_coding.h"
#include "apps/serve/http/target.h"

namespace ng::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr uint32_t kMostHeaderBytes = 16 << 10;
constexpr size_t kReadBytes = 4 << 10;  // at a time, where not a request is read
// Of a stream: so many bytes may wait for a client that reads slower than its answer comes.
constexpr size_t kMostUnsent = size_t{1} << 20;
// How long, and for how many bytes, a client that is refused may go on sending.
constexpr std::chrono::seconds kLingerTime(2);
constexpr size_t kMostDiscarded = size_t{64} << 20;

std::string Date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[40];
  return {text, std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

std::string TooLarge(int64_t max_body_bytes) {
  return absl::StrCat("the body has more than serve.max_body_bytes = ", max_body_bytes, " bytes");
}
constexpr const char* kBadTarget = "in the path a % must have two hexadecimal digits behind it";

// The beginning of every answer, without the empty line.
std::string Head(int status, const std::string& content_type, bool keep_alive) {
  const boost::string_view reason = http::obsolete_reason(static_cast<http::status>(status));
  return absl::StrCat("HTTP/1.1 ", status, " ", std::string(reason), "\r\nDate: ", Date(),
                      "\r\nServer: ng-serve\r\nX-Content-Type-Options: nosniff\r\nContent-Type: ",
                      content_type, keep_alive ? "" : "\r\nConnection: close", "\r\n");
}

std::string Text(boost::string_view text) { return {text.data(), text.size()}; }

// What comes with a request, or the status and the words with which it is refused.
struct TakenRequest {
  HttpRequest request;
  int refused = 0;
  std::string why = {};
};

TakenRequest Taken(http::request<http::string_body>&& message, int64_t max_body_bytes) {
  TakenRequest taken;
  HttpRequest& request = taken.request;
  request.method = Text(message.method_string());
  std::optional<Target> target = ParseTarget(Text(message.target()));
  if (!target) return {.request = {}, .refused = kBadRequest, .why = kBadTarget};
  request.path = std::move(target->path);
  request.host = target->host.value_or(Text(message[http::field::host]));
  request.origin = Text(message[http::field::origin]);
  request.authorization = Text(message[http::field::authorization]);
  request.api_key = Text(message["X-Api-Key"]);
  request.body = std::move(message.body());
  taken.refused = RemoveContentCoding(Text(message[http::field::content_encoding]), max_body_bytes,
                                      &request.body);
  if (taken.refused == kTooLarge) taken.why = TooLarge(max_body_bytes);
  if (taken.refused == kUnknownCoding) taken.why = "the Content-Encoding must be gzip or identity";
  if (taken.refused == kBadRequest) taken.why = "the body is no whole gzip, as its headers say";
  return taken;
}

}  // namespace

// The connection lets go of it when the answer has ended.
class Connection::Answer : public Exchange {
 public:
  Answer(std::shared_ptr<Connection> connection, HttpRequest request)
      : connection_(std::move(connection)), request_(std::move(request)) {}

  const HttpRequest& request() const override { return request_; }
  void Reply(HttpReply reply) override {
    if (const auto connection = connection_) connection->SendReply(reply);
  }
  void BeginStream(const std::string& content_type) override {
    if (const auto connection = connection_) connection->BeginStream(content_type);
  }
  void Write(std::string bytes) override {
    if (const auto connection = connection_) connection->SendChunk(bytes);
  }
  void EndStream() override {
    if (const auto connection = connection_) connection->EndStream();
  }
  void OnGone(std::function<void()> gone) override {
    if (gone_) return gone();
    if (connection_ != nullptr) on_gone_ = std::move(gone);
  }

  void Count(int64_t tokens_in, int64_t tokens_out) override {
    tokens_in_ = tokens_in;
    tokens_out_ = tokens_out;
  }
  std::optional<int64_t> tokens_in() const { return tokens_in_; }
  std::optional<int64_t> tokens_out() const { return tokens_out_; }

  void End() {
    connection_.reset();
    on_gone_ = nullptr;
  }
  void Gone() {
    gone_ = true;
    const std::function<void()> gone = std::exchange(on_gone_, nullptr);
    End();
    if (gone) gone();
  }

 private:
  std::shared_ptr<Connection> connection_;  // null: the answer has ended
  HttpRequest request_;
  std::function<void()> on_gone_;
  bool gone_ = false;
  std::optional<int64_t> tokens_in_;
  std::optional<int64_t> tokens_out_;
};

Connection::Connection(asio::ip::tcp::socket socket, Connections& all)
    : all_(all),
      socket_(std::move(socket)),
      read_deadline_{asio::steady_timer(socket_.get_executor())},
      write_deadline_{asio::steady_timer(socket_.get_executor())} {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void Connection::Arm(Deadline& deadline, std::chrono::seconds time, void (Connection::*call)()) {
  const uint64_t armed = ++deadline.armed;
  deadline.timer.expires_after(time);
  deadline.timer.async_wait(
      [self = shared_from_this(), &deadline, armed, call](const error_code& error) {
        if (!error && armed == deadline.armed && !self->closed_) (self.get()->*call)();
      });
}

void Connection::Disarm(Deadline& deadline) {
  ++deadline.armed;
  deadline.timer.cancel();
}

void Connection::LeaveIdle() {
  if (idle_) all_.idle.erase(*idle_);
  idle_.reset();
}

void Connection::Close() {
  if (std::exchange(closed_, true)) return;
  const auto self = shared_from_this();
  Disarm(read_deadline_);
  Disarm(write_deadline_);
  LeaveIdle();
  if (const auto answer = std::exchange(answer_, nullptr)) {
    ++all_.counts.gone;
    answer->Gone();
    Tell(answer.get(), /*gone=*/true);
  }
  error_code ignored;
  socket_.close(ignored);
  all_.open.erase(self);
  --all_.counts.connections;
  if (all_.on_closed) all_.on_closed();
}

void Connection::Drain() {
  keep_alive_ = false;
  if (idle_) Close();
}

void Connection::Await() {
  if (all_.draining) return Close();
  if (buffer_.size() > 0) return ReadRequest();  // it came before the last answer had ended
  idle_ = all_.idle.insert(all_.idle.end(), this);
  Arm(read_deadline_, all_.limits.idle, &Connection::Close);
  Watch();
}

void Connection::Watch() {
  if (std::exchange(watching_, true)) return;
  socket_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](const error_code& error, size_t n) {
                            self->watching_ = false;
                            if (!self->closed_) self->OnBytes(error, n);
                          });
}

void Connection::OnBytes(const error_code& error, size_t n) {
  if (error == asio::error::eof && ended_) {
    keep_alive_ = false;  // it says no more, and may still read
    return;
  }
  if (error) return Close();
  buffer_.commit(n);
  if (lingers_) {
    n_discarded_ += buffer_.size();
    buffer_.consume(buffer_.size());
    return n_discarded_ > kMostDiscarded ? Close() : Watch();
  }
  // While an answer is awaited it is kept for later.
  if (idle_) ReadRequest();
}

void Connection::ReadRequest() {
  LeaveIdle();
  begun_ = std::chrono::steady_clock::now();
  status_ = 0;
  Arm(read_deadline_, all_.limits.read, &Connection::OnReadTimeout);
  parser_.emplace();
  parser_->header_limit(kMostHeaderBytes);
  parser_->body_limit(static_cast<uint64_t>(all_.limits.max_body_bytes));
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](const error_code& error, size_t) { self->OnHeader(error); });
}

void Connection::OnHeader(const error_code& error) {
  if (closed_ || refused_) return;
  if (error) return OnReadError(error);
  if (absl::EqualsIgnoreCase(Text(parser_->get()[http::field::expect]), "100-continue")) {
    Queue("HTTP/1.1 100 Continue\r\n\r\n");
  }
  http::async_read(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](const error_code& failed, size_t) { self->OnRequest(failed); });
}

void Connection::OnRequest(const error_code& error) {
  if (closed_ || refused_) return;
  if (error) return OnReadError(error);
  Disarm(read_deadline_);
  keep_alive_ = parser_->keep_alive() && !all_.draining;
  chunked_ = parser_->get().version() >= 11;
  TakenRequest taken = Taken(parser_->release(), all_.limits.max_body_bytes);
  parser_.reset();
  without_body_ = taken.request.method == "HEAD";
  answer_ = std::make_shared<Answer>(shared_from_this(), std::move(taken.request));
  if (buffer_.size() == 0) Watch();
  const std::shared_ptr<Answer> answer = answer_;
  if (taken.refused != 0) {
    return answer->Reply(all_.refusal(taken.refused, taken.why, answer->request().path));
  }
  try {
    all_.handler(answer);
  } catch (const std::exception& failed) {
    if (!streams_) {
      return answer->Reply(all_.refusal(kServerError, failed.what(), answer->request().path));
    }
    Close();
  }
}

void Connection::OnReadError(const error_code& error) {
  if (error == http::error::body_limit) {
    return Refuse(kTooLarge, TooLarge(all_.limits.max_body_bytes));
  }
  if (error == http::error::header_limit) {
    return Refuse(kHeadersTooLarge,
                  absl::StrCat("the headers have more than ", kMostHeaderBytes, " bytes"));
  }
  const bool ended = error == http::error::end_of_stream || error == http::error::partial_message;
  if (ended || error.category() != http::make_error_code(http::error::bad_method).category()) {
    return Close();
  }
  Refuse(kBadRequest, absl::StrCat("the request is no HTTP: ", error.message()));
}

void Connection::OnReadTimeout() {
  error_code ignored;
  socket_.cancel(ignored);
  Refuse(kRequestTimeout,
         absl::StrCat("the request did not come whole within serve.read_seconds = ",
                      all_.limits.read.count()));
}

void Connection::Refuse(int status, const std::string& message) {
  refused_ = true;
  keep_alive_ = false;
  Disarm(read_deadline_);
  SendReply(all_.refusal(status, message, PathRead()));
}

std::string Connection::PathRead() const {
  if (!parser_) return {};
  const std::optional<Target> target = ParseTarget(Text(parser_->get().target()));
  return target ? target->path : std::string();
}

void Connection::SendReply(const HttpReply& reply) {
  if (closed_ || ended_) return;
  ++all_.counts.replies[reply.status];
  status_ = reply.status;
  std::string head = Head(reply.status, reply.content_type, keep_alive_);
  absl::StrAppend(&head, "Content-Length: ", reply.body.size(), "\r\n");
  for (const auto& [name, value] : reply.headers) {
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  }
  Queue(absl::StrCat(head, "\r\n", without_body_ ? "" : reply.body));
  EndAnswer();
}

void Connection::BeginStream(const std::string& content_type) {
  if (closed_) return;
  streams_ = true;
  ++all_.counts.replies[kOk];
  status_ = kOk;
  keep_alive_ = keep_alive_ && chunked_;
  Queue(absl::StrCat(Head(kOk, content_type, keep_alive_), "Cache-Control: no-cache\r\n",
                     chunked_ ? "Transfer-Encoding: chunked\r\n" : "", "\r\n"));
}

void Connection::SendChunk(const std::string& bytes) {
  if (closed_ || bytes.empty()) return;
  if (!chunked_) return Queue(bytes);
  Queue(absl::StrCat(absl::Hex(bytes.size()), "\r\n", bytes, "\r\n"));
}

void Connection::EndStream() {
  if (closed_) return;
  if (chunked_) Queue("0\r\n\r\n");
  EndAnswer();
}

void Connection::Tell(const Answer* answer, bool gone) {
  if (!all_.on_answered) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun_;
  Answered answered = {.status = status_, .gone = gone, .seconds = took.count()};
  error_code ignored;
  answered.client = socket_.remote_endpoint(ignored).address().to_string();
  if (answer != nullptr) {
    answered.method = answer->request().method;
    answered.path = answer->request().path;
    answered.tokens_in = answer->tokens_in();
    answered.tokens_out = answer->tokens_out();
  }
  all_.on_answered(answered);
}

void Connection::EndAnswer() {
  ended_ = true;
  const auto answer = std::exchange(answer_, nullptr);
  Tell(answer.get(), /*gone=*/false);
  if (answer != nullptr) answer->End();
  if (!writing_ && !closed_) Next();
}

void Connection::Queue(std::string_view bytes) {
  if (closed_) return;
  waiting_ += bytes;
  if (streams_ && waiting_.size() > kMostUnsent) return OnWriteTimeout();
  if (!writing_) WriteSome();
}

void Connection::WriteSome() {
  if (n_sent_ == in_flight_.size()) {
    in_flight_ = std::exchange(waiting_, {});
    n_sent_ = 0;
  }
  writing_ = true;
  Arm(write_deadline_, all_.limits.write, &Connection::OnWriteTimeout);
  socket_.async_write_some(asio::buffer(in_flight_.data() + n_sent_, in_flight_.size() - n_sent_),
                           [self = shared_from_this()](const error_code& error, size_t n) {
                             self->OnWritten(error, n);
                           });
}

void Connection::OnWritten(const error_code& error, size_t n) {
  writing_ = false;
  if (closed_) return;
  Disarm(write_deadline_);
  if (error) return Close();
  n_sent_ += n;
  if (n_sent_ < in_flight_.size() || !waiting_.empty()) return WriteSome();
  if (ended_) Next();
}

void Connection::OnWriteTimeout() {
  ++all_.counts.slow_readers;
  Close();
}

void Connection::Next() {
  ended_ = false;
  streams_ = false;
  if (!keep_alive_) return Linger();
  Await();
}

void Connection::Linger() {
  lingers_ = true;
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  Arm(read_deadline_, kLingerTime, &Connection::Close);
  Watch();
}

}  // namespace ng::serve
