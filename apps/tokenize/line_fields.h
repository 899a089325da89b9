// The fields of one line of JSON.
#ifndef NG_APPS_TOKENIZE_LINE_FIELDS_H_
#define NG_APPS_TOKENIZE_LINE_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ng/status.h"

namespace ng::tokenize {

// A field that is JSON null counts as absent. Errors: UsageError naming the field, the value found
// and what is allowed.
class LineFields {
 public:
  // Errors: the line is not a JSON object.
  static absl::StatusOr<LineFields> Parse(const std::string& line);

  absl::StatusOr<std::string> Text(const char* key) const;
  // false where it is absent.
  absl::StatusOr<bool> Flag(const char* key) const;
  // Each in [0, vocab_size).
  absl::StatusOr<std::vector<int32_t>> Ids(const char* key, int64_t vocab_size) const;

 private:
  explicit LineFields(nlohmann::json object) : object_(std::move(object)) {}
  const nlohmann::json* Find(const char* key) const;

  nlohmann::json object_;
};

}  // namespace ng::tokenize

#endif  // NG_APPS_TOKENIZE_LINE_FIELDS_H_
