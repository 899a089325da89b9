// A line for each request that has been answered, for whoever looks at the server.
//
// Thread: pure functions.
#ifndef NG_APPS_SERVE_REQUEST_LOG_H_
#define NG_APPS_SERVE_REQUEST_LOG_H_

#include <ctime>
#include <string>

#include "apps/serve/http/server.h"

namespace ng::serve {

// "12:03:04 127.0.0.1 POST /v1/chat/completions demo, 8 tokens in, 24 out, 0.52 s, 200".
std::string TextLogLine(const Answered& answered, const std::string& model, std::time_t now);
// Of a long path it has the beginning. The same as an object; what is not known is null.
std::string JsonLogLine(const Answered& answered, const std::string& model, std::time_t now);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_REQUEST_LOG_H_
