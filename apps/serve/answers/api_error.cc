#include "apps/serve/answers/api_error.h"

#include <string_view>

namespace ng::serve {
namespace {

// Seconds after which a client may ask again.
constexpr const char* kRetryAfter = "1";

std::string_view TypeOf(int status) {
  if (status == kUnauthorized) return "authentication_error";
  if (status == kForbidden) return "permission_error";
  if (status == kTooManyRequests) return "rate_limit_error";
  return status >= kServerError ? "server_error" : "invalid_request_error";
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

std::string JsonText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json ErrorJson(const ApiError& error) {
  Json object = Json::object();
  object["message"] = OneLine(error.message);
  object["type"] = TypeOf(error.status);
  object["param"] = TextOrNull(error.param);
  object["code"] = TextOrNull(error.code);
  Json json = Json::object();
  json["error"] = std::move(object);
  return json;
}

HttpReply ErrorReply(const ApiError& error) {
  HttpReply reply = {.status = error.status, .body = JsonText(ErrorJson(error)) + "\n"};
  if (error.status == kTooManyRequests) reply.headers = {{"Retry-After", kRetryAfter}};
  if (error.status == kUnauthorized) reply.headers = {{"WWW-Authenticate", "Bearer"}};
  return reply;
}

ApiError ServerEnds() {
  return {.status = kUnavailable, .message = "the server ends", .code = "shutting_down"};
}

ApiError ErrorOf(const absl::Status& status, const DiskPaths& paths, const std::string& param) {
  const absl::string_view message = status.message();
  ApiError error = {.message = paths.Hidden({message.data(), message.size()}), .param = param};
  const int code = ExitCode(status);
  if (code == ExitCode(LimitError(""))) {
    error.code = "context_length_exceeded";
  } else if (code != ExitCode(UsageError(""))) {
    error.status = kServerError;
    error.param.clear();
  }
  return error;
}

}  // namespace ng::serve
