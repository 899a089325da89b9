#include "apps/serve/requests/fields.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/common/json.h"

namespace ng::serve {

Fields::Fields(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

const Json* Fields::Value(const std::string& name) {
  read_.insert(name);
  const Json* const found = Find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

const Json* Fields::Find(const std::string& name) const {
  if (given_ != nullptr && name == given_name_) return given_;
  const auto found = object_.find(name);
  return found == object_.end() ? nullptr : &*found;
}

void Fields::Give(std::string name, const Json& value) {
  given_name_ = std::move(name);
  given_ = &value;
}

const Json* Fields::Object(const std::string& name) {
  const Json* const value = Value(name);
  if (value == nullptr || value->is_object()) return value;
  Refuse(name, "must be an object");
  return nullptr;
}

std::optional<int64_t> Fields::Int(const std::string& name, IntRange range) {
  const Json* const value = Value(name);
  if (value == nullptr) return std::nullopt;
  // A number above int64 is unsigned, and would become negative.
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() || value->get<uint64_t>() <= INT64_MAX);
  const int64_t number = fits ? value->get<int64_t>() : 0;
  if (fits && number >= range.min && number <= range.max) return number;
  Refuse(name, range.max == INT64_MAX
                   ? absl::StrCat("must be an integer of at least ", range.min)
                   : absl::StrCat("must be an integer in [", range.min, ", ", range.max, "]"));
  return std::nullopt;
}

std::optional<double> Fields::Real(const std::string& name, RealRange range) {
  const Json* const value = Value(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : 0.0;
  const bool above = range.min_open ? number > range.min : number >= range.min;
  if (value->is_number() && above && number <= range.max) return number;
  Refuse(name, absl::StrCat("must be a number in ", range.min_open ? "(" : "[", range.min, ", ",
                            range.max, "]"));
  return std::nullopt;
}

std::optional<bool> Fields::Bool(const std::string& name) {
  const Json* const value = Value(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Refuse(name, "must be true or false");
  return std::nullopt;
}

std::optional<std::string> Fields::Text(const std::string& name) {
  const Json* const value = Value(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Refuse(name, "must be a text");
  return std::nullopt;
}

void Fields::Refuse(const std::string& name, const std::string& must_be) {
  const std::string full = prefix_ + name;
  const Json* const found = Find(name);
  const std::string shown = found == nullptr ? "absent" : ShownJson(*found);
  Fail({.message = absl::StrCat(full, " = ", shown, ", ", must_be), .param = full});
}

void Fields::Fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

void Fields::RefuseField(const std::string& name, const std::string& why) {
  const std::string full = prefix_ + name;
  Fail({.message = absl::StrCat("the field ", full, " is not supported; ",
                                why.empty() ? "leave it out" : why),
        .param = full,
        .code = "unsupported_parameter"});
}

bool Fields::Finish() {
  for (const auto& [name, value] : object_.items()) {
    if (!Find(name)->is_null() && !read_.contains(name)) RefuseField(name, "");
  }
  return error_.has_value();
}

}  // namespace ng::serve
