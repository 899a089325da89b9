// Errors as each API has them: a status, and an object that says what is wrong with what.
#ifndef NG_APPS_SERVE_ANSWERS_API_ERROR_H_
#define NG_APPS_SERVE_ANSWERS_API_ERROR_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "apps/serve/answers/disk_paths.h"
#include "apps/serve/http/exchange.h"
#include "ng/status.h"

namespace ng::serve {

using Json = nlohmann::ordered_json;

// A code by which Anthropic's libraries know that a thread must be created again.
inline constexpr const char* kThreadNotFound = "thread_not_found";

struct ApiError {
  int status = kBadRequest;
  std::string message;
  std::string param = {};  // which field; empty: none
  std::string code = {};   // a word for programs; empty: none
};

// In whose words an error is told. The types follow from the status.
//
//   kOpenAi     {"error": {"message", "type", "param", "code"}}
//   kAnthropic  {"type": "error", "error": {"type", "message"}}
//   kOllama     {"error": a text}
enum class ErrorStyle { kOpenAi, kAnthropic, kOllama };
// By the API that a path belongs to.
ErrorStyle ErrorStyleOf(std::string_view path);

Json ErrorJson(const ApiError& error, ErrorStyle style = ErrorStyle::kOpenAi);
HttpReply ErrorReply(const ApiError& error, ErrorStyle style = ErrorStyle::kOpenAi);

// What is not answered because the server ends.
ApiError ServerEnds();

// What an error of the engine is to a client: its own fault (400) or the server's (500).
ApiError ErrorOf(const absl::Status& status, const DiskPaths& paths, const std::string& param = {});

// JSON text; bytes that are not UTF-8 become U+FFFD.
std::string JsonText(const Json& json);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_API_ERROR_H_
