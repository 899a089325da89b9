// The lines of JSON of a card of methods: one for each part of the work, written as soon as it is
// done, so that an interrupted card can go on.
#ifndef NG_APPS_EVAL_LAB_LINES_H_
#define NG_APPS_EVAL_LAB_LINES_H_

#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ng/status.h"

namespace ng::eval {

using Json = nlohmann::ordered_json;

// A line's part of the work: its kind, the method, and what else names it. Two lines with the same
// key say the same thing.
std::string LineKey(const Json& line);

class LineFile {
 public:
  // Nothing is kept on disk.
  LineFile() = default;
  // Begins a file. With `resume` its whole lines are read first: those of errors and a last line
  // that was cut are left out and will be written again. Errors: UsageError for a line that is none
  // of ng-eval's, or that was run otherwise (`run` differs); OutputError.
  static absl::StatusOr<LineFile> Open(const std::string& path, bool resume, const Json& run);
  ~LineFile();
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&& other) noexcept;

  // What is done; null: it is not.
  const Json* Find(const std::string& key) const;
  // Writes a line at once. Errors: OutputError.
  absl::Status Add(const Json& line);

  const std::vector<Json>& lines() const { return lines_; }

 private:
  absl::Status WriteAll(const std::string& text);

  std::string path_;
  int fd_ = -1;
  std::vector<Json> lines_;
};

// A line with its end.
std::string LineText(const Json& line);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_LAB_LINES_H_
