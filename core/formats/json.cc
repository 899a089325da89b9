#include "core/formats/json.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/file.h"
#include "ng/json.h"

namespace ng {
namespace {

using Json = nlohmann::json;

// What a status says of the place of the value that is wrong.
constexpr const char* kPlace = "ng.json.place";

// The library's complaint without its own prefix and without the text it quotes, which may be as
// long as the file.
std::string ShortReason(const std::exception& exception) {
  std::string_view reason = exception.what();
  if (const size_t end = reason.find("] "); reason.starts_with('[') && end != reason.npos) {
    reason.remove_prefix(end + 2);
  }
  constexpr size_t kLongest = 200;
  return std::string(reason.substr(0, std::min(reason.find("; last read"), kLongest)));
}

// Builds the value.
// NOLINTNEXTLINE(bugprone-exception-escape): of the JSON library, whose moves do not throw
class Builder {
 public:
  JsonDocument& root() { return root_; }

  bool HasKey(const std::string& key) const { return open_.back()->contains(key); }
  template <class Value>
  void Put(const std::string& key, Value value) {
    Add(key, std::move(value));
  }
  void Begin(const std::string& key, bool is_list) {
    open_.push_back(Add(key, is_list ? Json::array() : Json::object()));
  }
  void End() { open_.pop_back(); }

 private:
  // Puts a value at the parser's place, and returns its address.
  Json* Add(const std::string& key, Json value) {
    if (open_.empty()) {
      *root_ = std::move(value);
      return &*root_;
    }
    Json& container = *open_.back();
    if (container.is_object()) return &(container[key] = std::move(value));
    container.push_back(std::move(value));
    return &container.back();
  }

  JsonDocument root_;
  std::vector<Json*> open_;  // outermost first
};

// Keeps the keys of the objects that are open, and nothing of the values.
class Checker {
 public:
  bool HasKey(const std::string& key) {
    Keys& keys = open_.back();
    if (std::ranges::find(keys.few, key) != keys.few.end() || keys.others.contains(key)) {
      return true;
    }
    if (keys.few.size() < kFew) {
      keys.few.push_back(key);
    } else {
      keys.others.insert(key);
    }
    return false;
  }
  template <class Value>
  void Put(const std::string& /*key*/, const Value& /*value*/) {}
  void Begin(const std::string& /*key*/, bool /*is_list*/) { open_.emplace_back(); }
  void End() { open_.pop_back(); }

 private:
  // Most objects have few keys, which are faster looked through.
  static constexpr size_t kFew = 16;
  struct Keys {
    std::vector<std::string> few;
    absl::flat_hash_set<std::string> others;
  };

  std::vector<Keys> open_;  // outermost first
};

// Gives the parser's events to a sink. It refuses what the library would accept.
template <class Sink>
class StrictReader final : public nlohmann::json_sax<Json> {
 public:
  explicit StrictReader(int max_depth) : max_depth_(max_depth) {}

  Sink& sink() { return sink_; }
  const std::string& error() const { return error_; }
  // Of the value that was being read: "messages[1].content".
  std::string Place() const {
    constexpr size_t kMostOfKey = 80;
    std::string place;
    for (const Open& open : open_) {
      if (open.is_list) {
        // A container is in its list while it is read, another value is not.
        const size_t index = open.n_values - (&open == &open_.back() ? 0 : 1);
        absl::StrAppend(&place, "[", index, "]");
      } else if (!open.key.empty()) {
        absl::StrAppend(&place, place.empty() ? "" : ".", open.key.substr(0, kMostOfKey));
      }
    }
    return place;
  }

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t&) override { return Put(value); }
  bool string(string_t& value) override { return Put(std::move(value)); }
  bool binary(binary_t&) override { return Refuse("holds binary data"); }

  bool start_object(size_t) override { return Begin(/*is_list=*/false); }
  bool start_array(size_t) override { return Begin(/*is_list=*/true); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (sink_.HasKey(name)) {
      return Refuse(absl::StrCat("key ", JsonExcerpt(name), " appears twice"));
    }
    open_.back().key = std::move(name);
    return true;
  }

  bool parse_error(size_t, const std::string&, const Json::exception& exception) override {
    return Refuse("is not valid JSON: " + ShortReason(exception));
  }

 private:
  // A container around the parser's place.
  struct Open {
    bool is_list;
    size_t n_values = 0;   // that it has
    std::string key = {};  // of the value that is read, in an object; empty between two
  };

  const std::string& Key() const {
    static const std::string kNone;
    return open_.empty() ? kNone : open_.back().key;
  }
  template <class Value>
  bool Put(Value&& value) {
    sink_.Put(Key(), std::forward<Value>(value));
    if (!open_.empty()) ++open_.back().n_values;
    EndValue();
    return true;
  }
  void EndValue() {
    if (!open_.empty()) open_.back().key.clear();
  }

  bool Begin(bool is_list) {
    if (static_cast<int>(open_.size()) >= max_depth_) {
      return Refuse(absl::StrCat("is nested more than ", max_depth_, " levels deep"));
    }
    sink_.Begin(Key(), is_list);
    if (!open_.empty()) ++open_.back().n_values;
    open_.push_back({is_list});
    return true;
  }

  bool Close() {
    sink_.End();
    open_.pop_back();
    EndValue();
    return true;
  }

  bool Refuse(std::string reason) {
    error_ = std::move(reason);
    return false;
  }

  const int max_depth_;
  Sink sink_;
  std::vector<Open> open_;  // outermost first
  std::string error_;
};

// Reads the text as the standard has it, and more strictly, into the sink. Errors: ModelFileError
// that begins with `name`.
template <class Sink>
absl::Status ReadStrictly(std::string_view bytes, const std::string& name, int max_depth,
                          Sink* sink) {
  const auto refuse = [&](std::string_view reason) {
    return ModelFileError(absl::StrCat(name, ": ", View(reason)));
  };
  if (bytes.starts_with("\xEF\xBB\xBF")) return refuse("begins with a byte order mark");
  // The library takes a NUL byte for the end of the text.
  if (const size_t nul = bytes.find('\0'); nul != bytes.npos) {
    return refuse(absl::StrCat("is not valid JSON: NUL byte at offset ", nul));
  }
  try {
    StrictReader<Sink> reader(max_depth);
    if (!Json::sax_parse(bytes, &reader)) {
      absl::Status refused = refuse(reader.error());
      refused.SetPayload(kPlace, absl::Cord(View(reader.Place())));
      return refused;
    }
    *sink = std::move(reader.sink());
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    throw;  // the file is not at fault
  } catch (const std::exception& exception) {
    return refuse(absl::StrCat("cannot be parsed: ", exception.what()));
  }
}

}  // namespace

void JsonDocument::Empty(Json& value) {
  if (auto* const list = value.get_ptr<Json::array_t*>()) {
    for (Json& member : *list) Empty(member);
    list->clear();
  } else if (auto* const object = value.get_ptr<Json::object_t*>()) {
    for (auto& [key, member] : *object) Empty(member);
    object->clear();
  }
}

absl::StatusOr<JsonDocument> ParseJson(std::string_view bytes, const std::string& name,
                                       int max_depth) {
  Builder builder;
  NG_RETURN_IF_ERROR(ReadStrictly(bytes, name, max_depth, &builder));
  return std::move(builder.root());
}

absl::Status CheckJson(std::string_view text, const std::string& name, int max_depth) {
  Checker checker;
  return ReadStrictly(text, name, max_depth, &checker);
}

std::string JsonErrorPlace(const absl::Status& status) {
  return std::string(status.GetPayload(kPlace).value_or(absl::Cord()));
}

namespace {

// Infinity, -Infinity and NaN, which Python writes though JSON has not, as objects.
std::string WithNamedNumbers(std::string_view bytes) {
  constexpr std::string_view kNames[] = {"-Infinity", "Infinity", "NaN"};
  std::string out;
  bool in_text = false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto* const name =
        in_text ? std::end(kNames) : std::ranges::find_if(kNames, [&](std::string_view known) {
          return bytes.substr(i).starts_with(known);
        });
    if (name != std::end(kNames)) {
      absl::StrAppend(&out, R"({"__float__": ")", View(*name), "\"}");
      i += name->size() - 1;
      continue;
    }
    if (bytes[i] == '"') in_text = !in_text;
    out += bytes[i];
    if (in_text && bytes[i] == '\\' && i + 1 < bytes.size()) out += bytes[++i];
  }
  return out;
}

}  // namespace

absl::StatusOr<JsonDocument> ReadJsonFile(const std::string& path, const JsonLimits& limits) {
  NG_ASSIGN_OR_RETURN(std::string bytes, ReadWholeFile(path, limits.max_bytes));
  if (absl::StrContains(bytes, "Infinity") || absl::StrContains(bytes, "NaN")) {
    bytes = WithNamedNumbers(bytes);
  }
  return ParseJson(bytes, path, limits.max_depth);
}

std::string JsonExcerpt(const Json& value) {
  constexpr size_t kLongest = 80;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

bool SaysNothing(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.empty();  // of a number: no
}

absl::StatusOr<JsonFields> JsonFields::Of(const Json& value, const std::string& file) {
  return Of(value, file, std::make_shared<ReadKeys>());
}

absl::StatusOr<JsonFields> JsonFields::Of(const Json& value, const std::string& file,
                                          std::shared_ptr<ReadKeys> read, std::string prefix) {
  if (!value.is_object()) {
    return ModelFileError(
        absl::StrCat(file, ": is ", JsonExcerpt(value), ", must be a JSON object"));
  }
  return JsonFields(&value, file, std::move(prefix), std::move(read));
}

bool JsonFields::Has(std::string_view key) const { return Peek(key) != nullptr; }

bool JsonFields::IsNull(std::string_view key) const {
  const auto found = object_->find(key);
  return found != object_->end() && found->is_null();
}

const Json* JsonFields::Peek(std::string_view key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const Json* JsonFields::Find(std::string_view key) const {
  const Json* value = Peek(key);
  if (value != nullptr) read_->insert(absl::StrCat(prefix_, View(key)));
  return value;
}

std::vector<std::string> JsonFields::Unread() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : object_->items()) {
    const std::string name = prefix_ + key;
    const std::string inner = name + ".";
    if (SaysNothing(value) || read_->contains(name)) continue;
    if (read_->contains(inner)) {
      std::ranges::move(JsonFields(&value, file_, inner, read_).Unread(),
                        std::back_inserter(names));
    } else {
      names.push_back(name);
    }
  }
  return names;
}

absl::Status JsonFields::Wrong(std::string_view key, const Json& value,
                               std::string_view allowed) const {
  return ModelFileError(absl::StrCat(file_, ": key \"", prefix_, View(key),
                                     "\" = ", JsonExcerpt(value), ", must be ", View(allowed)));
}

absl::Status JsonFields::Missing(std::string_view key, std::string_view allowed) const {
  return ModelFileError(absl::StrCat(file_, ": key \"", prefix_, View(key),
                                     "\" is missing, must be ", View(allowed)));
}

namespace {

std::string IntAllowed(Range<int64_t> range) {
  return absl::StrCat("an integer in [", range.min, ", ", range.max, "]");
}

bool IsIntIn(const Json& value, Range<int64_t> range) {
  if (!value.is_number_integer()) return false;
  // An unsigned value above INT64_MAX would come out negative.
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) return false;
  return value.get<int64_t>() >= range.min && value.get<int64_t>() <= range.max;
}

// Python's libraries take an id of 2.0 for 2.
Json AsWhole(const Json& value) {
  constexpr double kMost = 1e15;  // all whole numbers up to it are doubles
  if (!value.is_number_float()) return value;
  const auto number = value.get<double>();
  const bool whole = std::trunc(number) == number && std::abs(number) <= kMost;
  return whole ? Json(static_cast<int64_t>(number)) : value;
}

std::string NumberAllowed(Range<double> range) {
  return absl::StrCat("a number in [", range.min, ", ", range.max, "]");
}

constexpr std::string_view kBoolAllowed = "true or false";
constexpr std::string_view kTextAllowed = "a string";

}  // namespace

absl::StatusOr<std::optional<int64_t>> JsonFields::OptionalInt(std::string_view key,
                                                               Range<int64_t> range) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!IsIntIn(*value, range)) return Wrong(key, *value, IntAllowed(range));
  return value->get<int64_t>();
}

absl::StatusOr<std::optional<std::vector<int64_t>>> JsonFields::OptionalInts(
    std::string_view key, Range<int64_t> range) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) {
    const Json one = AsWhole(*value);
    if (!IsIntIn(one, range)) return Wrong(key, *value, IntAllowed(range) + ", or a list of them");
    return std::vector<int64_t>{one.get<int64_t>()};
  }
  std::vector<int64_t> list;
  for (size_t i = 0; i < value->size(); ++i) {
    const Json one = AsWhole((*value)[i]);
    if (!IsIntIn(one, range)) {
      return Wrong(absl::StrCat(View(key), "[", i, "]"), (*value)[i], IntAllowed(range));
    }
    list.push_back(one.get<int64_t>());
  }
  return list;
}

absl::StatusOr<std::optional<double>> JsonFields::OptionalNumber(std::string_view key,
                                                                 Range<double> range) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  // Not NaN, which a binary format may hold.
  if (!value->is_number() ||
      !(value->get<double>() >= range.min && value->get<double>() <= range.max)) {
    return Wrong(key, *value, NumberAllowed(range));
  }
  return value->get<double>();
}

absl::StatusOr<std::optional<bool>> JsonFields::OptionalBool(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return Wrong(key, *value, kBoolAllowed);
  return value->get<bool>();
}

absl::StatusOr<std::optional<std::string>> JsonFields::OptionalText(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return Wrong(key, *value, kTextAllowed);
  return value->get<std::string>();
}

absl::StatusOr<std::optional<std::vector<std::string>>> JsonFields::OptionalTexts(
    std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) return Wrong(key, *value, "a list of strings");
  for (size_t i = 0; i < value->size(); ++i) {
    if ((*value)[i].is_string()) continue;
    return Wrong(absl::StrCat(View(key), "[", i, "]"), (*value)[i], kTextAllowed);
  }
  return value->get<std::vector<std::string>>();
}

absl::StatusOr<std::optional<JsonFields>> JsonFields::OptionalObject(std::string_view key) const {
  const Json* value = Peek(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) return Wrong(key, *value, "a JSON object");
  const std::string inner = absl::StrCat(prefix_, View(key), ".");
  read_->insert(inner);
  return JsonFields(value, file_, inner, read_);
}

absl::StatusOr<int64_t> JsonFields::Int(std::string_view key, Range<int64_t> range) const {
  NG_ASSIGN_OR_RETURN(const std::optional<int64_t> value, OptionalInt(key, range));
  if (!value) return Missing(key, IntAllowed(range));
  return *value;
}

absl::StatusOr<double> JsonFields::Number(std::string_view key, Range<double> range) const {
  NG_ASSIGN_OR_RETURN(const std::optional<double> value, OptionalNumber(key, range));
  if (!value) return Missing(key, NumberAllowed(range));
  return *value;
}

absl::StatusOr<bool> JsonFields::Bool(std::string_view key) const {
  NG_ASSIGN_OR_RETURN(const std::optional<bool> value, OptionalBool(key));
  if (!value) return Missing(key, kBoolAllowed);
  return *value;
}

absl::StatusOr<std::string> JsonFields::Text(std::string_view key) const {
  NG_ASSIGN_OR_RETURN(std::optional<std::string> value, OptionalText(key));
  if (!value) return Missing(key, kTextAllowed);
  return *std::move(value);
}

absl::StatusOr<std::vector<int64_t>> JsonFields::IntList(std::string_view key,
                                                         Range<int64_t> range) const {
  const std::string allowed = absl::StrCat("a list, each of it ", IntAllowed(range));
  const Json* value = Find(key);
  if (value == nullptr) return Missing(key, allowed);
  if (!value->is_array()) return Wrong(key, *value, allowed);
  for (size_t i = 0; i < value->size(); ++i) {
    if (IsIntIn((*value)[i], range)) continue;
    return Wrong(absl::StrCat(View(key), "[", i, "]"), (*value)[i], IntAllowed(range));
  }
  return value->get<std::vector<int64_t>>();
}

}  // namespace ng
