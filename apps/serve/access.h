// Who may ask: checks of the headers that say from where a request comes.
#ifndef NG_APPS_SERVE_ACCESS_H_
#define NG_APPS_SERVE_ACCESS_H_

#include <optional>
#include <string_view>

#include "apps/serve/answers/api_error.h"
#include "apps/serve/settings.h"

namespace ng::serve {

// Refuses (403) a request whose Host is neither localhost, nor an address in digits, nor one of
// serve.names: a page elsewhere may have had its own name lead here. Refuses one whose Origin is
// not the server itself: another page's script sends it.
std::optional<ApiError> CheckSource(const HttpRequest& request, const Settings& settings);

// Refuses (401) a request without the key, which clients of some APIs send as X-Api-Key.
std::optional<ApiError> CheckKey(const HttpRequest& request, const Settings& settings);

// Takes the same time whatever differs, up to the length of `given`.
bool SameSecret(std::string_view secret, std::string_view given);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ACCESS_H_
