// JSON from untrusted bytes, and typed access to the fields of a config.json.
//
// Stricter than the JSON library: nesting is limited, a key may appear once, no byte order mark, no
// NUL byte. No exception escapes. Errors are ModelFileError and begin with the name given.
#ifndef NG_CORE_FORMATS_JSON_H_
#define NG_CORE_FORMATS_JSON_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ng/status.h"

namespace ng {

// A JSON value that goes without a further allocation. The library's own destructor makes a list of
// what to free, and a failed allocation there would end the program.
class JsonDocument {
 public:
  // A null takes no memory, whatever the library's constructor for all kinds may do.
  // NOLINTBEGIN(bugprone-exception-escape)
  JsonDocument() = default;
  JsonDocument(JsonDocument&& other) noexcept { std::swap(value_, other.value_); }
  // NOLINTEND(bugprone-exception-escape)
  JsonDocument& operator=(JsonDocument&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~JsonDocument() { Empty(value_); }

  nlohmann::json& operator*() { return value_; }
  const nlohmann::json& operator*() const { return value_; }
  nlohmann::json* operator->() { return &value_; }
  const nlohmann::json* operator->() const { return &value_; }

 private:
  // As deep as the value, whose depth has a limit.
  static void Empty(nlohmann::json& value);

  nlohmann::json value_;
};

// Parses one JSON value. `name` is what errors call the bytes ("model/config.json"). A value that
// is not inside any array or object has depth 0.
absl::StatusOr<JsonDocument> ParseJson(std::string_view bytes, const std::string& name,
                                       int max_depth);

struct JsonLimits {
  int64_t max_bytes = int64_t{16} << 20;
  int max_depth = 32;
};
// As Python reads it: Infinity, -Infinity and NaN are numbers, {"__float__": "Infinity"} and so on.
absl::StatusOr<JsonDocument> ReadJsonFile(const std::string& path, const JsonLimits& limits = {});

// A value as errors show it: its JSON text, in ASCII and cut when long.
std::string JsonExcerpt(const nlohmann::json& value);

template <typename T>
struct Range {  // both ends allowed
  T min;
  T max;
};

// Whether a value says nothing: null, false, or an empty text, list or object.
bool SaysNothing(const nlohmann::json& value);

// The keys of one file that somebody read, by their dotted names. "outer." means that somebody
// asked for the fields of the object "outer".
using ReadKeys = std::set<std::string, std::less<>>;

// The fields of one JSON object. An optional field that is absent or null is nullopt. Errors name
// the file, the key, the value found and what is allowed:
//   config.json: key "n_layers" = "two", must be an integer in [1, 1024]
// Borrows the object. Remembers which keys were read, in one log for all its copies and for the
// objects in it, so only one thread at a time may use it.
class JsonFields {
 public:
  // Errors: the value is not an object.
  static absl::StatusOr<JsonFields> Of(const nlohmann::json& value, const std::string& file);
  // The same with a log that outlives these fields. `prefix` goes before every key in errors and in
  // the log.
  static absl::StatusOr<JsonFields> Of(const nlohmann::json& value, const std::string& file,
                                       std::shared_ptr<ReadKeys> read, std::string prefix = "");

  bool empty() const { return object_->empty(); }
  // Whether the key exists and is not null. Does not count as reading it.
  bool Has(std::string_view key) const;
  // Whether the key exists and is JSON null, for the few formats where this differs from being
  // absent.
  bool IsNull(std::string_view key) const;
  // The value as it is, or a null pointer where the key is absent or JSON null. Everything in the
  // value counts as read.
  const nlohmann::json* Find(std::string_view key) const;
  // The dotted names of the keys that say something and that nobody read, in the object's order. An
  // object counts as one key when nobody asked for its fields.
  std::vector<std::string> Unread() const;

  absl::StatusOr<int64_t> Int(std::string_view key, Range<int64_t> range) const;
  absl::StatusOr<double> Number(std::string_view key, Range<double> range) const;
  absl::StatusOr<bool> Bool(std::string_view key) const;
  absl::StatusOr<std::string> Text(std::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> IntList(std::string_view key, Range<int64_t> range) const;

  absl::StatusOr<std::optional<int64_t>> OptionalInt(std::string_view key,
                                                     Range<int64_t> range) const;
  // One integer, or a list of them. A number such as 2.0 is one.
  absl::StatusOr<std::optional<std::vector<int64_t>>> OptionalInts(std::string_view key,
                                                                   Range<int64_t> range) const;
  absl::StatusOr<std::optional<double>> OptionalNumber(std::string_view key,
                                                       Range<double> range) const;
  absl::StatusOr<std::optional<bool>> OptionalBool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string>> OptionalText(std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<std::string>>> OptionalTexts(std::string_view key) const;
  // The fields of a nested object; its errors name the key as "outer.inner".
  absl::StatusOr<std::optional<JsonFields>> OptionalObject(std::string_view key) const;

 private:
  JsonFields(const nlohmann::json* object, std::string file, std::string prefix,
             std::shared_ptr<ReadKeys> read)
      : object_(object),
        file_(std::move(file)),
        prefix_(std::move(prefix)),
        read_(std::move(read)) {}

  const nlohmann::json* Peek(std::string_view key) const;  // like Find, but not counted as read
  absl::Status Wrong(std::string_view key, const nlohmann::json& value,
                     std::string_view allowed) const;
  absl::Status Missing(std::string_view key, std::string_view allowed) const;

  const nlohmann::json* object_;
  std::string file_;
  std::string prefix_;  // "outer."
  std::shared_ptr<ReadKeys> read_;
};

}  // namespace ng

#endif  // NG_CORE_FORMATS_JSON_H_
