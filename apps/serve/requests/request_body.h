// The body of a request as a JSON object, with its tools apart.
//
// Agents send the same tools with every request, of some ten or hundred KB. A list that was read
// before is neither checked nor read again: it is found in the body by its bytes.
#ifndef NG_APPS_SERVE_REQUESTS_REQUEST_BODY_H_
#define NG_APPS_SERVE_REQUESTS_REQUEST_BODY_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/serve/requests/openai_requests.h"
#include "ng/recent.h"

namespace ng::serve {

struct RequestBody {
  Json json;                          // an object
  std::shared_ptr<const Json> tools;  // the value of its "tools", which is not in it; null: it is
};

// Errors: 400 for what is no JSON object.
Parsed<RequestBody> ReadBody(std::string_view body, KnownTools* known);

// The bytes of a member's value, within the text of an object; nothing where it has no such member,
// or several, and where the text is seen to be no object. What is found may be no JSON.
std::optional<std::string_view> FindMember(std::string_view object, std::string_view name);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_REQUESTS_REQUEST_BODY_H_
