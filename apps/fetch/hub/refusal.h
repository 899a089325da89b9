// What an answer without the file means to the user.
#ifndef NG_APPS_FETCH_HUB_REFUSAL_H_
#define NG_APPS_FETCH_HUB_REFUSAL_H_

#include <string>

#include "apps/fetch/web/exchange.h"
#include "ng/status.h"

namespace ng::fetch {

// What was asked for.
struct Subject {
  std::string name;  // "ORG/NAME@REVISION", or with a file
  std::string host;
  bool with_token = false;
};

// Whether another try may have another answer: nothing or not all came, or the hub is busy.
bool IsPassing(const HttpAnswer& answer);

// Errors: ModelFileError: the hub has no such thing, or not for this user; RuntimeError: the hub
// cannot be reached or gives another error.
absl::Status RefusalOf(const HttpAnswer& answer, const Subject& subject);

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_HUB_REFUSAL_H_
