#include "core/formats/key_policy.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/absl_view.h"
#include "core/formats/json.h"

namespace ng {
namespace {

// Removes a key by its dotted name; a key may itself have dots.
std::optional<nlohmann::json> TakeOut(nlohmann::json& object, const std::string& name) {
  if (const auto found = object.find(name); found != object.end()) {
    nlohmann::json value = std::move(*found);
    object.erase(found);
    return value;
  }
  for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
    const auto outer = object.find(name.substr(0, dot));
    if (outer == object.end() || !outer->is_object()) continue;
    if (auto value = TakeOut(*outer, name.substr(dot + 1))) return value;
  }
  return std::nullopt;
}

}  // namespace

void KeyPolicy::LeftOut(const std::string& file, const std::string& key,
                        const nlohmann::json& value) {
  matched_.insert(key);
  if (!warn_) return;
  warn_(absl::StrCat(file, ": key \"", key, "\" = ", JsonExcerpt(value),
                     " is left out, as model.ignore_keys says"));
}

void KeyPolicy::LeaveOutIgnored(const std::string& file, nlohmann::json& object) {
  if (!object.is_object()) return;
  for (const std::string& key : ignored_) {
    if (const auto value = TakeOut(object, key)) LeftOut(file, key, *value);
  }
}

void KeyPolicy::LeaveOutIgnored(GgufMetadata& metadata) {
  for (const std::string& key : ignored_) {
    if (const auto value = metadata.Remove(key)) LeftOut(metadata.path(), key, *value);
  }
}

std::vector<std::string> KeyPolicy::Unmatched() const {
  std::vector<std::string> keys;
  for (const std::string& key : ignored_) {
    if (!matched_.contains(key)) keys.push_back(key);
  }
  return keys;
}

absl::Status KeyPolicy::Doubt(std::string_view doubt) const {
  if (strict_) {
    return ModelFileError(
        absl::StrCat(View(doubt), "; model.strict = true refuses it, false runs it"));
  }
  if (warn_) warn_(doubt);
  return absl::OkStatus();
}

absl::Status KeyPolicy::Unread(const std::string& file,
                               const std::vector<std::string>& keys) const {
  if (keys.empty()) return absl::OkStatus();
  return Doubt(
      absl::StrCat(file, ": nobody reads ",
                   keys.size() == 1 ? "this key: " : "these keys: ", absl::StrJoin(keys, ", ")));
}

}  // namespace ng
