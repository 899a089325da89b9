// Schemas as those who declare them mean them: objects with the properties that they list.
#ifndef NG_APPS_SERVE_ANSWERS_HELD_CLOSED_SCHEMA_H_
#define NG_APPS_SERVE_ANSWERS_HELD_CLOSED_SCHEMA_H_

#include <string>

#include "apps/serve/requests/fields.h"

namespace ng::serve {

// A schema whose objects have no other properties than those that it lists, where it says nothing
// of others. What JSON Schema means by that, any others, no function takes and no reader expects,
// and small models go on with them without an end. The schema that was given allows all that this
// one allows. Objects of which several schemas say something together stay as they are.
Json ClosedSchema(Json schema);

// The same of JSON text: of a schema, and of the parameters of a request's tools.
std::string ClosedSchemaText(const std::string& schema);
std::string WithClosedParameters(const std::string& tools);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_ANSWERS_HELD_CLOSED_SCHEMA_H_
