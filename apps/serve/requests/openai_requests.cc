#include "apps/serve/requests/openai_requests.h"

#include "absl/strings/str_cat.h"
#include "apps/common/json.h"
#include "apps/serve/requests/fields.h"
#include "apps/serve/requests/request_fields.h"
#include "apps/serve/requests/responses_request.h"
#include "ng/json.h"
#include "ng/ordered_json.h"

namespace ng::serve {
namespace {

constexpr int kMaxJsonDepth = 36;  // as --prompts

// "messages[1].content" -> "messages.content", as fields are called.
std::string FieldOf(const std::string& place) {
  std::string field;
  bool inside = false;
  for (const char c : place) {
    inside = c == '[' || (inside && c != ']');
    if (!inside && c != ']') field += c;
  }
  return field;
}

Parsed<Json> ParseBody(std::string_view body) {
  const absl::Status valid = CheckJson(body, "the body", kMaxJsonDepth);
  if (!valid.ok()) {
    const std::string place = JsonErrorPlace(valid);
    return ApiError{.message = absl::StrCat(valid.message(), place.empty() ? "" : ", in " + place),
                    .param = FieldOf(place),
                    .code = "invalid_json"};
  }
  Json json = ParseCheckedJson(body);
  if (!json.is_object()) {
    return ApiError{.message = absl::StrCat("the body is ", ShownJson(json), ", must be an object"),
                    .code = "invalid_json"};
  }
  return json;
}

}  // namespace

Parsed<Request> ParseRequest(Api api, std::string_view body) {
  const Parsed<Json> json = ParseBody(body);
  if (const auto* const error = std::get_if<ApiError>(&json)) return *error;
  Fields fields(std::get<Json>(json));
  Request request;
  ReadFields(api, fields, &request);
  if (fields.Finish()) return *fields.error();
  if (api == kResponses) request.said = SaidOf(request, std::get<Json>(json));
  return request;
}

}  // namespace ng::serve
