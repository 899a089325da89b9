#include "apps/fetch/web/exchange.h"

#include <charconv>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/common/version.h"

namespace ng::fetch {
namespace {

constexpr int64_t kMostHeaderBytes = int64_t{1} << 18;
constexpr int64_t kMostOtherBytes = int64_t{1} << 16;

int64_t NumberIn(std::string_view text) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? value : -1;
}

std::string Trimmed(std::string_view text) {
  return std::string(absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size())));
}

// Where another try fails likewise: the address or the certificate is wrong.
bool IsHopeless(CURLcode code) {
  return code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT ||
         code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_NOT_BUILT_IN;
}

}  // namespace

Exchange::Exchange(HttpRequest request, BodySink sink)
    : request_(std::move(request)), sink_(std::move(sink)) {}

Exchange::~Exchange() {
  if (handle_ != nullptr && all_ != nullptr) curl_multi_remove_handle(all_, handle_);
  curl_easy_cleanup(handle_);
  curl_slist_free_all(headers_);
}

void Exchange::SetRequest() {
  constexpr int64_t kConnectSeconds = 30;
  constexpr int64_t kSlowBytes = 10;  // in a second; below it for this long the connection is dead
  constexpr int64_t kSlowSeconds = 60;
  constexpr int64_t kBufferBytes = int64_t{1} << 18;
  const auto add = [&](const std::string& header) {
    curl_slist* const longer = curl_slist_append(headers_, header.c_str());
    if (longer != nullptr) headers_ = longer;
  };
  add("Accept-Encoding: identity");  // sizes and ranges are of the file
  if (!request_.token.empty()) add("Authorization: Bearer " + request_.token);
  if (request_.from > 0) add(absl::StrCat("Range: bytes=", request_.from, "-"));
  const std::string agent = absl::StrCat("ng-fetch/", VersionNumber());
  curl_easy_setopt(handle_, CURLOPT_URL, request_.url.c_str());
  curl_easy_setopt(handle_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle_, CURLOPT_USERAGENT, agent.c_str());
  curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, headers_);
  curl_easy_setopt(handle_, CURLOPT_NOBODY, request_.head ? 1L : 0L);
  curl_easy_setopt(handle_, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(handle_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(handle_, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(handle_, CURLOPT_LOW_SPEED_LIMIT, kSlowBytes);
  curl_easy_setopt(handle_, CURLOPT_LOW_SPEED_TIME, kSlowSeconds);
  curl_easy_setopt(handle_, CURLOPT_ERRORBUFFER, why_);
  curl_easy_setopt(handle_, CURLOPT_PRIVATE, this);
  curl_easy_setopt(handle_, CURLOPT_HEADERFUNCTION, &Exchange::OnHeader);
  curl_easy_setopt(handle_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(handle_, CURLOPT_WRITEFUNCTION, &Exchange::OnBody);
  curl_easy_setopt(handle_, CURLOPT_WRITEDATA, this);
}

absl::Status Exchange::Begin(CURLM* all) {
  handle_ = curl_easy_init();
  if (handle_ == nullptr) return RuntimeError("libcurl makes no request");
  SetRequest();
  if (curl_multi_add_handle(all, handle_) != CURLM_OK) {
    return RuntimeError("libcurl takes no request");
  }
  all_ = all;
  return absl::OkStatus();
}

void Exchange::TakeHeader(std::string_view line) {
  if (line.starts_with("HTTP/")) {  // of the last answer alone: others may have come before it
    answer_ = {};
    const size_t blank = line.find(' ');
    if (blank != line.npos) answer_.status = static_cast<int>(NumberIn(line.substr(blank + 1, 3)));
    return;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos) return;
  const std::string name = absl::AsciiStrToLower(absl::string_view(line.data(), colon));
  const std::string value = Trimmed(line.substr(colon + 1));
  const std::pair<const char*, std::string*> texts[] = {
      {"etag", &answer_.etag},
      {"x-linked-etag", &answer_.linked_etag},
      {"content-range", &answer_.content_range},
      {"x-repo-commit", &answer_.commit},
      {"location", &answer_.location},
      {"x-error-code", &answer_.error_code},
      {"x-error-message", &answer_.error_message}};
  for (const auto& [known, text] : texts) {
    if (name == known) *text = value;
  }
  if (name == "x-linked-size") answer_.linked_size = NumberIn(value);
  if (name == "content-length") answer_.length = NumberIn(value);
}

size_t Exchange::TakeBody(std::string_view bytes) {
  if (answer_.status != kHttpOk && answer_.status != kHttpPartial) {
    other_bytes_ += static_cast<int64_t>(bytes.size());
    return other_bytes_ > kMostOtherBytes ? 0 : bytes.size();
  }
  if (sink_) answer_.refused = sink_(answer_, bytes);
  return answer_.refused.ok() ? bytes.size() : 0;
}

size_t Exchange::OnHeader(const char* bytes, size_t size, size_t n, void* exchange) {
  auto* const self = static_cast<Exchange*>(exchange);
  self->header_bytes_ += static_cast<int64_t>(size * n);
  if (self->header_bytes_ > kMostHeaderBytes) return 0;
  self->TakeHeader({bytes, size * n});
  return size * n;
}

size_t Exchange::OnBody(const char* bytes, size_t size, size_t n, void* exchange) {
  return static_cast<Exchange*>(exchange)->TakeBody({bytes, size * n});
}

void Exchange::End(CURLcode code) {
  done_ = true;
  curl_off_t seconds = 0;
  curl_easy_getinfo(handle_, CURLINFO_RETRY_AFTER, &seconds);
  answer_.retry_after_s = seconds;
  // Of an answer that says why there is no file, the headers are enough.
  const bool enough = answer_.status > kHttpPartial || other_bytes_ > kMostOtherBytes;
  if (code == CURLE_OK || (enough && answer_.status != 0)) return;
  answer_.cut = why_[0] != '\0' ? why_ : curl_easy_strerror(code);
  answer_.hopeless = IsHopeless(code);
}

absl::StatusOr<std::unique_ptr<Exchanges>> Exchanges::Open(const std::atomic<bool>* stop,
                                                           int stop_fd) {
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return RuntimeError("libcurl does not start");
  }
  CURLM* const all = curl_multi_init();
  if (all == nullptr) return RuntimeError("libcurl does not start");
  return std::unique_ptr<Exchanges>(new Exchanges(all, stop, stop_fd));
}

Exchanges::~Exchanges() {
  curl_multi_cleanup(all_);
  curl_global_cleanup();
}

absl::StatusOr<std::unique_ptr<Exchange>> Exchanges::Begin(HttpRequest request, BodySink sink) {
  std::unique_ptr<Exchange> exchange(new Exchange(std::move(request), std::move(sink)));
  NG_RETURN_IF_ERROR(exchange->Begin(all_));
  return exchange;
}

absl::Status Exchanges::Wait(int milliseconds) {
  curl_waitfd stop = {stop_fd_, CURL_WAIT_POLLIN, 0};
  int running = 0;
  CURLMcode code = curl_multi_perform(all_, &running);
  if (code == CURLM_OK) {
    int waiting = 0;
    bool ended = false;
    while (const CURLMsg* const message = curl_multi_info_read(all_, &waiting)) {
      if (message->msg != CURLMSG_DONE) continue;
      Exchange* exchange = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &exchange);
      exchange->End(message->data.result);
      ended = true;
    }
    if (!ended) code = curl_multi_poll(all_, &stop, 1, milliseconds, nullptr);
  }
  if (*stop_) return InterruptedError("stopped");
  if (code == CURLM_OK) return absl::OkStatus();
  return RuntimeError(absl::StrCat("libcurl: ", curl_multi_strerror(code)));
}

}  // namespace ng::fetch
