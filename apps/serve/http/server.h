// HttpServer: connections and their limits. It knows nothing of what is asked.
//
// A connection carries one request at a time and is kept for the next one. It is closed when a
// request does not come whole in time, when nothing is asked for long, when the client does not
// read its answer, and by the client.
//
// Thread: Run has the server's thread, on which the handler and all functions that were posted are
// called. Post may be called from any thread, the rest from the server's, or before Run.
#ifndef NG_APPS_SERVE_HTTP_SERVER_H_
#define NG_APPS_SERVE_HTTP_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "apps/serve/http/exchange.h"
#include "ng/status.h"

namespace ng::serve {

struct HttpLimits {
  int64_t max_body_bytes = 0;
  int64_t max_connections = 0;
  std::chrono::seconds read{};   // from the first byte of a request to its last
  std::chrono::seconds write{};  // without the client reading a byte of its answer
  std::chrono::seconds idle{};   // between two requests
};

// What the server has counted.
struct HttpCounts {
  int64_t connections = 0;              // open now
  int64_t accepted = 0;                 // since the start
  int64_t refused = 0;                  // of them: too many were open
  int64_t slow_readers = 0;             // closed because they did not read
  int64_t gone = 0;                     // clients that left before their answer had ended
  std::map<int, int64_t> replies = {};  // answers by status; a stream counts when it begins
};

// A request whose answer has ended, or whose client has gone.
struct Answered {
  std::string client = {};  // its address
  std::string method = {};  // empty, and the path too: what came is no request
  std::string path = {};
  int status = 0;     // 0: the client went before an answer began
  bool gone = false;  // the client went before it ended
  double seconds = 0.0;
  std::optional<int64_t> tokens_in = {};  // Exchange::Count
  std::optional<int64_t> tokens_out = {};
};

class HttpServer {
 public:
  // Called for each request that came whole. What it does not answer at once it keeps.
  using Handler = std::function<void(std::shared_ptr<Exchange> exchange)>;
  // What the server answers itself: 400, 408, 413, 431 or 503 and one line of text. `path`: of the
  // request, as far as it is known.
  using Refusal =
      std::function<HttpReply(int status, const std::string& message, const std::string& path)>;

  // Takes the address, which must be one of this machine in digits. Port 0: any that is free.
  // Errors: RuntimeError where that cannot be.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(const std::string& address, int port,
                                                            const HttpLimits& limits);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  HttpCounts counts() const;

  // Answers requests until Drain has been called and all answers have ended, or until Stop.
  void Run(Handler handler, Refusal refusal);
  void Post(std::function<void()> call);
  // Calls for each request when it has been answered. Call it before Run.
  void WatchAnswers(std::function<void(const Answered& answered)> watcher);
  // Requests whose answers have not ended.
  int64_t n_unanswered() const;
  // Takes no more connections, and closes each when its answer has ended.
  void Drain();
  // Closes everything.
  void Stop();

  // Calls once when the time has passed, unless what is returned is let go before.
  std::shared_ptr<void> After(std::chrono::milliseconds time, std::function<void()> call);
  // Calls once when the file can be read.
  void WhenReadable(int fd, std::function<void()> call);

 private:
  struct Parts;
  explicit HttpServer(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_HTTP_SERVER_H_
