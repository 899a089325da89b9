// What the user should know though it is no error: told once each, and kept for --dry-run.
#ifndef NG_CORE_BASE_WARNINGS_H_
#define NG_CORE_BASE_WARNINGS_H_

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/status.h"

namespace ng {

// Thread: the engine's.
class Warnings {
 public:
  explicit Warnings(std::function<void(std::string_view)> tell = {}) : tell_(std::move(tell)) {}

  // One that was told before is not told again.
  void Add(std::string_view text) {
    std::string line = OneLine(text);
    if (std::ranges::find(lines_, line) != lines_.end()) return;
    if (tell_) tell_(line);
    lines_.push_back(std::move(line));
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::function<void(std::string_view)> tell_;  // may be empty
  std::vector<std::string> lines_;
};

}  // namespace ng

#endif  // NG_CORE_BASE_WARNINGS_H_
