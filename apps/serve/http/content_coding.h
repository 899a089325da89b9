// The body of a request without its Content-Encoding.
#ifndef NG_APPS_SERVE_HTTP_CONTENT_CODING_H_
#define NG_APPS_SERVE_HTTP_CONTENT_CODING_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace ng::serve {

// Decodes gzip ("gzip" and "x-gzip") in place; "identity" and an empty coding leave the body as it
// is. Returns 0, or the status to refuse it with: 415 for another coding, 413 as soon as there are
// more than `max_bytes`, 400 for what is no gzip, or cut, or damaged.
int RemoveContentCoding(std::string_view coding, int64_t max_bytes, std::string* body);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_HTTP_CONTENT_CODING_H_
