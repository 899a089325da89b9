// The target of a request: the path that is asked for, and the host where it is said there.
#ifndef NG_APPS_SERVE_HTTP_TARGET_H_
#define NG_APPS_SERVE_HTTP_TARGET_H_

#include <optional>
#include <string>
#include <string_view>

namespace ng::serve {

struct Target {
  std::string path;                 // decoded, without the query
  std::optional<std::string> host;  // "localhost:8080", of a target in absolute form
};

// "/v1/models/my%20model?x=y", "http://localhost:8080/health". Nothing where a % has no two digits
// behind it.
std::optional<Target> ParseTarget(std::string_view target);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_HTTP_TARGET_H_
