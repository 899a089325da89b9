// What becomes of the keys of a model's files that nobody reads, by the user's word: model.strict
// and model.ignore_keys. One for all files of a model.
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
  // Nothing is left out, and nobody hears the warnings.
  KeyPolicy() = default;
  // `ignored` are keys by their dotted names, to be left out of every file that has them. `warn` is
  // called with one line at a time.
  KeyPolicy(bool strict, std::vector<std::string> ignored,
            std::function<void(std::string_view)> warn)
      : strict_(strict), ignored_(std::move(ignored)), warn_(std::move(warn)) {}

  // Takes the ignored keys out, so that the file is read as if it did not have them, and warns of
  // each. To be called before anything is read.
  void LeaveOutIgnored(const std::string& file, nlohmann::json& object);
  void LeaveOutIgnored(GgufMetadata& metadata);
  // The ignored keys that no file had.
  std::vector<std::string> Unmatched() const;

  // What is no fault by itself: a warning, or where the user asked for strictness a ModelFileError.
  // `doubt` names the file.
  absl::Status Doubt(std::string_view doubt) const;
  // The doubt that these keys of a file are: nobody reads them. None: no doubt.
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
