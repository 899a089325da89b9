// One HTTP request and its answer, as the rest of the server sees them.
#ifndef NG_APPS_SERVE_HTTP_EXCHANGE_H_
#define NG_APPS_SERVE_HTTP_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ng::serve {

// The statuses that this server answers with.
enum HttpStatus : int {
  kOk = 200,
  kBadRequest = 400,
  kUnauthorized = 401,
  kForbidden = 403,
  kNotFound = 404,
  kNotAllowed = 405,
  kRequestTimeout = 408,
  kTooLarge = 413,
  kUnknownCoding = 415,
  kTooManyRequests = 429,
  kHeadersTooLarge = 431,
  kServerError = 500,
  kUnavailable = 503,
};

struct HttpRequest {
  std::string method = {};  // "GET"
  std::string path = {};    // without the query, decoded: "/v1/models/my model"
  std::string host = {};    // of an absolute target, else a header; empty: not there
  std::string origin = {};
  std::string authorization = {};
  std::string api_key = {};  // X-Api-Key
  std::string body = {};     // without its Content-Encoding
};

struct HttpReply {
  int status = kOk;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};  // more of them
};

// A request that waits for its answer: one reply, or one stream. What is said after the end of the
// answer, or when the client has gone, is dropped.
//
// Thread: the server's (HttpServer::Post goes there). The request may be read from any.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const HttpRequest& request() const = 0;
  virtual void Reply(HttpReply reply) = 0;
  // A stream: its beginning, its bytes, its end.
  virtual void BeginStream(const std::string& content_type) = 0;
  virtual void Write(std::string bytes) = 0;
  virtual void EndStream() = 0;
  // Called once when the client is gone before the answer has ended: it has closed the connection,
  // or it has not read for too long. Called at once if it is gone already.
  virtual void OnGone(std::function<void()> gone) = 0;
  // For whoever watches the server (HttpServer::WatchAnswers): the tokens of the request and of
  // what there is of its answer.
  virtual void Count(int64_t tokens_in, int64_t tokens_out) = 0;
};

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_HTTP_EXCHANGE_H_
