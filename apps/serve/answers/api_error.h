// Errors as OpenAI's API has them: a status, and an object that says what is wrong with what.
#ifndef NG_APPS_SERVE_ANSWERS_API_ERROR_H_
#define NG_APPS_SERVE_ANSWERS_API_ERROR_H_

#include <nlohmann/json.hpp>
#include <string>

#include "apps/serve/answers/disk_paths.h"
#include "apps/serve/http/exchange.h"
#include "ng/status.h"

namespace ng::serve {

using Json = nlohmann::ordered_json;

struct ApiError {
  int status = kBadRequest;
  std::string message;
  std::string param = {};  // which field; empty: none
  std::string code = {};   // a word for programs; empty: none
};

// {"error": {"message", "type", "param", "code"}}; the type follows from the status.
Json ErrorJson(const ApiError& error);
HttpReply ErrorReply(const ApiError& error);

// What is not answered because the server ends.
ApiError ServerEnds();

// What an error of the engine is to a client: its own fault (400) or the server's (500).
ApiError ErrorOf(const absl::Status& status, const DiskPaths& paths, const std::string& param = {});

// JSON text; bytes that are not UTF-8 become U+FFFD.
std::string JsonText(const Json& json);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_API_ERROR_H_
