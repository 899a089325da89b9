// stdin and stdout; their errors are values.
#ifndef NG_APPS_TOKENIZE_STANDARD_STREAMS_H_
#define NG_APPS_TOKENIZE_STANDARD_STREAMS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "ng/status.h"

namespace ng {

// Reads all of stdin. Errors: RuntimeError.
absl::StatusOr<std::string> ReadStdin();

// Reads stdin line by line, without the line ends.
class LineReader {
 public:
  LineReader() = default;
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  ~LineReader();

  // The next line, or nothing at the end. Errors: RuntimeError.
  absl::StatusOr<std::optional<std::string>> Next();

 private:
  char* line_ = nullptr;  // owned, by getline's rules
  size_t capacity_ = 0;
};

// Writes a line to stdout at once, so that a program at the other end can answer it.
// Errors: OutputError; without a message when nobody reads any more (a closed pipe).
absl::Status PrintLine(std::string_view line);

}  // namespace ng

#endif  // NG_APPS_TOKENIZE_STANDARD_STREAMS_H_
