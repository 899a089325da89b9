// Requests and their answers over libcurl: several at once, on one thread.
#ifndef NG_APPS_FETCH_WEB_EXCHANGE_H_
#define NG_APPS_FETCH_WEB_EXCHANGE_H_

#include <curl/curl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ng/status.h"

namespace ng::fetch {

// Statuses of answers that have a body to take.
inline constexpr int kHttpOk = 200;
inline constexpr int kHttpPartial = 206;

struct HttpRequest {
  std::string url;
  std::string token = {};  // sent as it is; empty: none
  bool head = false;       // the headers alone
  int64_t from = 0;        // of the body: the first byte that is asked for
};

// What has come. A header that did not come is empty, a number -1.
struct HttpAnswer {
  int status = 0;  // 0: nothing came
  std::string etag = {};
  std::string linked_etag = {};
  int64_t linked_size = -1;
  int64_t length = -1;
  std::string content_range = {};
  std::string commit = {};
  std::string location = {};
  std::string error_code = {};     // what the hub calls the error
  std::string error_message = {};  // what it says of it
  int64_t retry_after_s = 0;
  std::string cut = {};   // why the answer is not whole; empty: it is
  bool hopeless = false;  // it would not help to ask again
  absl::Status refused;   // what the sink said
};

// Takes the bytes of the body of an answer 200 or 206 as they come. An error ends the exchange.
using BodySink = std::function<absl::Status(const HttpAnswer& answer, std::string_view bytes)>;

// A request that is on its way until it is done. The destructor gives it up.
class Exchange {
 public:
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  bool done() const { return done_; }
  // REQUIRES: done().
  const HttpAnswer& answer() const { return answer_; }

 private:
  friend class Exchanges;
  Exchange(HttpRequest request, BodySink sink);

  absl::Status Begin(CURLM* all);
  void End(CURLcode code);
  void SetRequest();
  void TakeHeader(std::string_view line);
  size_t TakeBody(std::string_view bytes);
  static size_t OnHeader(const char* bytes, size_t size, size_t n, void* exchange);
  static size_t OnBody(const char* bytes, size_t size, size_t n, void* exchange);

  const HttpRequest request_;
  const BodySink sink_;
  CURL* handle_ = nullptr;
  CURLM* all_ = nullptr;
  curl_slist* headers_ = nullptr;
  char why_[CURL_ERROR_SIZE] = "";
  int64_t header_bytes_ = 0;
  int64_t other_bytes_ = 0;  // of a body that nobody asked for
  HttpAnswer answer_;
  bool done_ = false;
};

// Lets exchanges go on. Not thread-safe. It outlives its exchanges.
class Exchanges {
 public:
  // `stop`: set by a signal, after which `stop_fd` has something to read. Errors: RuntimeError.
  static absl::StatusOr<std::unique_ptr<Exchanges>> Open(const std::atomic<bool>* stop,
                                                         int stop_fd);
  ~Exchanges();
  Exchanges(const Exchanges&) = delete;
  Exchanges& operator=(const Exchanges&) = delete;

  // Errors: RuntimeError.
  absl::StatusOr<std::unique_ptr<Exchange>> Begin(HttpRequest request, BodySink sink);
  // Lets all go on until one has something new, or for a time. Errors: InterruptedError;
  // RuntimeError.
  absl::Status Wait(int milliseconds);

 private:
  Exchanges(CURLM* all, const std::atomic<bool>* stop, int stop_fd)
      : all_(all), stop_(stop), stop_fd_(stop_fd) {}

  CURLM* const all_;
  const std::atomic<bool>* const stop_;
  const int stop_fd_;
};

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_WEB_EXCHANGE_H_
