// Tokens -> nodes. The grammar is Jinja's, with the tags that transformers adds: break, continue
// and generation. The tags that need other templates are refused.
#ifndef NG_CORE_TEXT_JINJA_PARSER_H_
#define NG_CORE_TEXT_JINJA_PARSER_H_

#include <set>
#include <string>
#include <string_view>

#include "core/text/jinja/node.h"
#include "ng/status.h"

namespace ng::jinja {

struct ParsedTemplate {
  Body body;
  // The variables and functions that it reads, its own too.
  std::set<std::string, std::less<>> names;
};

// REQUIRES: `source` is valid UTF-8. Errors: ModelFileError with name, line, what was found and
// what is allowed.
absl::StatusOr<ParsedTemplate> ParseTemplate(std::string_view source, const std::string& name);

}  // namespace ng::jinja

#endif  // NG_CORE_TEXT_JINJA_PARSER_H_
