#include "apps/serve/requests/openai_requests.h"

#include "apps/serve/requests/fields.h"
#include "apps/serve/requests/request_body.h"
#include "apps/serve/requests/request_fields.h"
#include "apps/serve/requests/responses_request.h"

namespace ng::serve {

Parsed<Request> ParseRequest(Api api, std::string_view body, KnownTools* known) {
  const Parsed<RequestBody> read = ReadBody(body, known);
  if (const auto* const error = std::get_if<ApiError>(&read)) return *error;
  const auto& [json, tools] = std::get<RequestBody>(read);
  Fields fields(json);
  if (tools != nullptr) fields.Give("tools", *tools);
  Request request;
  ReadFields(api, fields, &request);
  if (fields.Finish()) return *fields.error();
  if (api == kResponses) request.said = SaidOf(request, fields);
  return request;
}

}  // namespace ng::serve
