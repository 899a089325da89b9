// The table of what a request may have. A field is one of three:
//
//   supported  it does what its API says; `read` reads it
//   inert      with the values that `inert` takes it changes nothing in an answer, and is passed
//              over; another value is refused
//   refused    it means something that this server does not do; `words` say what to do instead
//
// A field that is not in the table is refused by its name. The README has the same table, and a
// test compares the two.
#ifndef NG_APPS_SERVE_REQUESTS_REQUEST_FIELDS_H_
#define NG_APPS_SERVE_REQUESTS_REQUEST_FIELDS_H_

#include <span>
#include <string>

#include "apps/serve/requests/fields.h"
#include "apps/serve/requests/openai_requests.h"

namespace ng::serve {

struct FieldRow {
  const char* name;
  unsigned apis;  // of Api
  void (*read)(Fields& fields, Request& request) = nullptr;
  bool (*inert)(const Json& value, const Json& body) = nullptr;
  const char* words = "";  // inert: what the value must be
};

// In the order in which they are read.
std::span<const FieldRow> FieldRows();

// Reads all that belongs to the API. What is wrong is in `fields`.
void ReadFields(Api api, Fields& fields, Request* request);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_REQUESTS_REQUEST_FIELDS_H_
