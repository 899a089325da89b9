// Fields: reads the fields of a JSON object, and finds those that nobody has read.
//
//   Fields fields(object);
//   const auto n = fields.Int("n", {1, 128});
//   const std::string user = fields.Text("user").value_or("");
//   if (fields.Finish()) return *fields.error();   // the first that is wrong, or is not known
//
// A field that is null counts as absent. What is wrong reads as absent too.
#ifndef NG_APPS_SERVE_REQUESTS_FIELDS_H_
#define NG_APPS_SERVE_REQUESTS_FIELDS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "apps/serve/answers/api_error.h"

namespace ng::serve {

class Fields {
 public:
  struct IntRange {
    int64_t min;
    int64_t max;
  };
  struct RealRange {
    double min;
    double max;
    bool min_open = false;
  };

  // `prefix` comes before the names in errors: "stream_options.". Borrows the object.
  explicit Fields(const Json& object, std::string prefix = {});

  std::optional<int64_t> Int(const std::string& name, IntRange range);
  std::optional<double> Real(const std::string& name, RealRange range);
  std::optional<bool> Bool(const std::string& name);
  std::optional<std::string> Text(const std::string& name);
  // The value whatever it is; null where it is absent.
  const Json* Value(const std::string& name);
  // An object; null where it is absent.
  const Json* Object(const std::string& name);

  // What the object has under this name is another value, which is borrowed.
  void Give(std::string name, const Json& value);

  const Json& object() const { return object_; }

  // Says that a field is wrong: "n = 0, must be ...".
  void Refuse(const std::string& name, const std::string& must_be);
  // The same in words of the caller's.
  void Fail(ApiError error);
  // Refuses a field that is there, and means something that cannot be done. `why`: "...", or empty.
  void RefuseField(const std::string& name, const std::string& why);
  // Refuses what has not been read. Whether anything was refused.
  bool Finish();
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const Json* Find(const std::string& name) const;  // null: it is not there

  const Json& object_;
  std::string given_name_;
  const Json* given_ = nullptr;
  std::string prefix_;
  std::set<std::string> read_;
  std::optional<ApiError> error_;
};

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_REQUESTS_FIELDS_H_
