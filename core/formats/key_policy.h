// What happens to keys of a model's files that nobody reads. The user decides it with model.strict
// and model.ignore_keys. One policy serves all files of a model.
#ifndef NG_CORE_FORMATS_KEY_POLICY_H_
#define NG_CORE_FORMATS_KEY_POLICY_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/gguf.h"
#include "ng/status.h"

namespace ng {

class KeyPolicy {
 public:
  // Removes no keys, accepts all, and drops the warnings.
  KeyPolicy() = default;
  // `ignored` has the dotted names of keys that are removed from every file that has them. `warn`
  // is called with one line at a time.
  KeyPolicy(bool strict, std::vector<std::string> ignored,
            std::function<void(std::string_view)> warn)
      : strict_(strict), ignored_(std::move(ignored)), warn_(std::move(warn)) {}

  // Removes the ignored keys, so that the file is read as if it did not have them, and warns about
  // each of them. REQUIRES: nothing has been read yet.
  void LeaveOutIgnored(const std::string& file, nlohmann::json& object);
  void LeaveOutIgnored(GgufMetadata& metadata);
  // The ignored keys that no file had.
  std::vector<std::string> Unmatched() const;

  // Reports something that may be wrong: a warning, or a ModelFileError when the user asked for
  // strictness. `doubt` names the file.
  absl::Status Doubt(std::string_view doubt) const;
  // Reports keys of a file that nobody reads, as a doubt. Does nothing when there are none.
  absl::Status Unread(const std::string& file, const std::vector<std::string>& keys) const;

 private:
  void LeftOut(const std::string& file, const std::string& key, const nlohmann::json& value);

  bool strict_ = false;
  std::vector<std::string> ignored_;
  std::function<void(std::string_view)> warn_;
  std::set<std::string> matched_;
};

}  // namespace ng

#endif  // NG_CORE_FORMATS_KEY_POLICY_H_
