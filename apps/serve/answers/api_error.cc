#include "apps/serve/answers/api_error.h"

#include <utility>

namespace ng::serve {
namespace {

// Seconds after which a client may ask again.
constexpr const char* kRetryAfter = "1";

// The types of OpenAI's API.
std::string_view TypeOf(int status) {
  if (status == kUnauthorized) return "authentication_error";
  if (status == kForbidden) return "permission_error";
  if (status == kTooManyRequests) return "rate_limit_error";
  return status >= kServerError ? "server_error" : "invalid_request_error";
}

// Those of Anthropic's.
std::string_view AnthropicTypeOf(int status) {
  switch (status) {
    case kUnauthorized:
      return "authentication_error";
    case kForbidden:
      return "permission_error";
    case kNotFound:
      return "not_found_error";
    case kTooLarge:
      return "request_too_large";
    case kTooManyRequests:
      return "rate_limit_error";
    case kUnavailable:
      return "overloaded_error";
    default:
      return status >= kServerError ? "api_error" : "invalid_request_error";
  }
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

std::string JsonText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ErrorStyle ErrorStyleOf(std::string_view path) {
  constexpr std::string_view kVersion = "/v1";
  if (path.starts_with("/api/")) return ErrorStyle::kOllama;
  if (path.starts_with(kVersion)) path.remove_prefix(kVersion.size());
  return path.starts_with("/messages") ? ErrorStyle::kAnthropic : ErrorStyle::kOpenAi;
}

Json ErrorJson(const ApiError& error, ErrorStyle style) {
  const std::string message = OneLine(error.message);
  Json json = Json::object();
  if (style == ErrorStyle::kOllama) {
    json["error"] = message;
    return json;
  }
  Json object = Json::object();
  if (style == ErrorStyle::kAnthropic) {
    object["type"] = AnthropicTypeOf(error.status);
    object["message"] = message;
    if (error.code == kThreadNotFound) object["details"]["error_code"] = error.code;
    json["type"] = "error";
    json["error"] = std::move(object);
    return json;
  }
  object["message"] = message;
  object["type"] = TypeOf(error.status);
  object["param"] = TextOrNull(error.param);
  object["code"] = TextOrNull(error.code);
  json["error"] = std::move(object);
  return json;
}

HttpReply ErrorReply(const ApiError& error, ErrorStyle style) {
  HttpReply reply = {.status = error.status, .body = JsonText(ErrorJson(error, style)) + "\n"};
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
