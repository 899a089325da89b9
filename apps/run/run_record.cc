#include "apps/run/run_record.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/common/json.h"
#include "ng/files.h"
#include "ng/json.h"

namespace ng::run {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::span<const char* const>;

constexpr int kFormat = 1;
constexpr int kRecordDepth = 4;  // a list in a request in the list of the object
constexpr int64_t kMaxBytes = int64_t{1} << 30;
constexpr size_t kHashDigits = 16;

constexpr const char* kFields[] = {"ng_record",  "program", "sdk",       "isa",
                                   "arithmetic", "model",   "tokenizer", "edits",
                                   "plugins",    "config",  "requests",  "checksum"};
constexpr const char* kPluginFields[] = {"kind", "name", "version", "hash"};
constexpr const char* kRequestFields[] = {"prompt_ids", "max_new_tokens", "ids", "logits",
                                          "stop_reason"};
constexpr const char* kContextTokens = "context_tokens";  // of a request; left out where it is 0
constexpr StopReason kReasons[] = {StopReason::kEot,         StopReason::kStage,
                                   StopReason::kStopText,    StopReason::kMaxNewTokens,
                                   StopReason::kInterrupted, StopReason::kError};

std::string HashDigits(uint64_t hash) { return absl::StrCat(absl::Hex(hash, absl::kZeroPad16)); }

// Objects and lists are made as such at once: a null that becomes one when there is no memory for
// it is left without its contents, and its destructor cannot handle that.
Json PluginsJson(const RunRecord& record) {
  Json plugins = Json::array();
  for (const PluginFingerprint& plugin : record.made_of.plugins) {
    Json& json = plugins.emplace_back(Json::object());
    json["kind"] = plugin.kind;
    json["name"] = plugin.name;
    json["version"] = plugin.version;
    json["hash"] = plugin.hash;
  }
  return plugins;
}

Json RequestsJson(const RunRecord& record) {
  Json requests = Json::array();
  for (const RecordedRequest& request : record.requests) {
    Json& json = requests.emplace_back(Json::object());
    json["prompt_ids"] = request.prompt_ids;
    json["max_new_tokens"] = request.max_new_tokens;
    if (request.context_tokens > 0) json[kContextTokens] = request.context_tokens;
    Json& ids = json["ids"] = Json::array();
    for (const RecordedStep& step : request.steps) ids.push_back(step.id);
    Json& hashes = json["logits"] = Json::array();
    for (const RecordedStep& step : request.steps) hashes.push_back(HashDigits(step.logits_hash));
    json["stop_reason"] = request.stop_reason;
  }
  return requests;
}

// Of all fields but itself.
std::string Checksum(Json json) {
  json.erase("checksum");
  return HashText(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Reads the fields of one file; the first that is wrong is the status, and the rest is not read.
class FieldReader {
 public:
  explicit FieldReader(const std::string& name) : name_(name) {}
  const absl::Status& status() const { return status_; }

  // Whether `json` is an object with exactly these fields, and perhaps those of `optional`.
  bool HasFields(const Json& json, const std::string& place, Names fields, Names optional = {}) {
    if (!json.is_object()) return Wrong(json, place, "an object");
    for (const auto& [key, value] : json.items()) {
      const auto is_key = [&key = key](const char* field) { return key == field; };
      if (std::ranges::any_of(fields, is_key) || std::ranges::any_of(optional, is_key)) continue;
      return Fail(absl::StrCat(In(place), "unknown field \"", OneLine(key),
                               "\"; allowed: ", absl::StrJoin(fields, ", ")));
    }
    for (const char* field : fields) {
      if (!json.contains(field)) return Fail(absl::StrCat(In(place), "has no \"", field, "\""));
    }
    return true;
  }

  bool IsList(const Json& json, const std::string& place) {
    return json.is_array() || Wrong(json, place, "a list");
  }

  std::string Text(const Json& json, const std::string& place) {
    if (!json.is_string()) {
      Wrong(json, place, "a text");
      return {};
    }
    return json.get<std::string>();
  }

  std::string Hash(const Json& json, const std::string& place) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const bool is_hash =
        json.is_string() && json.get_ref<const std::string&>().size() == kHashDigits &&
        json.get_ref<const std::string&>().find_first_not_of(kDigits) == std::string::npos;
    if (is_hash) return json.get<std::string>();
    Wrong(json, place, "a hash: 16 hexadecimal digits");
    return {};
  }

  int64_t Whole(const Json& json, const std::string& place, int64_t min, int64_t max) {
    const bool fits = json.is_number_integer() &&
                      (!json.is_number_unsigned() ||
                       json.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()}) &&
                      json.get<int64_t>() >= min && json.get<int64_t>() <= max;
    if (fits) return json.get<int64_t>();
    Wrong(json, place, absl::StrCat("an integer in [", min, ", ", max, "]"));
    return 0;
  }

  bool Wrong(const Json& json, const std::string& place, const std::string& allowed) {
    return Fail(absl::StrCat(place, " = ", ShownJson(nlohmann::json(json)), ", must be ", allowed));
  }
  bool Fail(const std::string& message) {
    if (status_.ok()) status_ = ModelFileError(absl::StrCat(name_, ": ", message));
    return false;
  }

 private:
  static std::string In(const std::string& place) {
    return place.empty() ? "" : absl::StrCat(place, ": ");
  }

  const std::string& name_;
  absl::Status status_;
};

std::vector<int32_t> IdList(const Json& json, const std::string& place, FieldReader& reader) {
  std::vector<int32_t> ids;
  if (!reader.IsList(json, place)) return ids;
  for (const Json& id : json) {
    constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
    ids.push_back(static_cast<int32_t>(
        reader.Whole(id, absl::StrCat(place, "[", ids.size(), "]"), 0, kLargest)));
    if (!reader.status().ok()) break;
  }
  return ids;
}

RecordedRequest ReadRequest(const Json& json, const std::string& place, FieldReader& reader) {
  RecordedRequest request;
  if (!reader.HasFields(json, place, kRequestFields, {&kContextTokens, 1})) return request;
  request.prompt_ids = IdList(json["prompt_ids"], place + ".prompt_ids", reader);
  request.max_new_tokens =
      reader.Whole(json["max_new_tokens"], place + ".max_new_tokens",
                   std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  if (json.contains(kContextTokens)) {
    request.context_tokens = reader.Whole(json[kContextTokens], place + ".context_tokens", 0,
                                          std::ssize(request.prompt_ids));
  }
  request.stop_reason = reader.Text(json["stop_reason"], place + ".stop_reason");
  const auto is_name = [&](StopReason reason) {
    return StopReasonName(reason) == request.stop_reason;
  };
  if (std::ranges::none_of(kReasons, is_name)) {
    reader.Wrong(json["stop_reason"], place + ".stop_reason",
                 absl::StrJoin(kReasons, ", ", [](std::string* out, StopReason reason) {
                   out->append(StopReasonName(reason));
                 }));
  }
  const std::vector<int32_t> ids = IdList(json["ids"], place + ".ids", reader);
  const Json& hashes = json["logits"];
  if (!reader.IsList(hashes, place + ".logits")) return request;
  if (hashes.size() != ids.size()) {
    reader.Fail(absl::StrCat(place, ": logits has ", hashes.size(), " hashes, must be ", ids.size(),
                             ", one for each of ids"));
  }
  for (size_t i = 0; i < ids.size() && reader.status().ok(); ++i) {
    const std::string hash = reader.Hash(hashes[i], absl::StrCat(place, ".logits[", i, "]"));
    RecordedStep& step = request.steps.emplace_back(RecordedStep{.id = ids[i]});
    std::from_chars(hash.data(), hash.data() + hash.size(), step.logits_hash, kHashDigits);
  }
  return request;
}

RunFingerprint ReadFingerprint(const Json& json, FieldReader& reader) {
  RunFingerprint print;
  const std::pair<const char*, std::string*> texts[] = {{"program", &print.program},
                                                        {"sdk", &print.sdk},
                                                        {"isa", &print.isa},
                                                        {"arithmetic", &print.arithmetic},
                                                        {"edits", &print.edits}};
  for (const auto& [name, text] : texts) *text = reader.Text(json[name], name);
  print.model = reader.Hash(json["model"], "model");
  print.tokenizer = reader.Text(json["tokenizer"], "tokenizer");
  if (print.tokenizer != "none") reader.Hash(json["tokenizer"], "tokenizer");
  if (!reader.IsList(json["plugins"], "plugins")) return print;
  for (const Json& plugin : json["plugins"]) {
    const std::string place = absl::StrCat("plugins[", print.plugins.size(), "]");
    if (!reader.HasFields(plugin, place, kPluginFields)) return print;
    print.plugins.push_back({reader.Text(plugin["kind"], place + ".kind"),
                             reader.Text(plugin["name"], place + ".name"),
                             reader.Text(plugin["version"], place + ".version"),
                             reader.Hash(plugin["hash"], place + ".hash")});
  }
  return print;
}

}  // namespace

std::string RecordText(const RunRecord& record) {
  const RunFingerprint& print = record.made_of;
  Json json = Json::object();
  json["ng_record"] = kFormat;
  json["program"] = print.program;
  json["sdk"] = print.sdk;
  json["isa"] = print.isa;
  json["arithmetic"] = print.arithmetic;
  json["model"] = print.model;
  json["tokenizer"] = print.tokenizer;
  json["edits"] = print.edits;
  json["plugins"] = PluginsJson(record);
  Json& config = json["config"] = Json::object();
  for (const auto& [key, value] : record.config) config[key] = value;
  json["requests"] = RequestsJson(record);
  json["checksum"] = Checksum(json);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<RunRecord> ParseRecord(const std::string& text, const std::string& name) {
  NG_RETURN_IF_ERROR(CheckJson(text, name, kRecordDepth));
  const Json json = Json::parse(text);
  FieldReader reader(name);
  if (!json.is_object() || !json.contains("ng_record")) {
    return ModelFileError(name + ": is no record of ng-run: it has no \"ng_record\"");
  }
  if (json["ng_record"] != kFormat) {
    reader.Wrong(json["ng_record"], "ng_record",
                 absl::StrCat(kFormat, ", the format that this version of ng reads"));
    return reader.status();
  }
  RunRecord record;
  if (!reader.HasFields(json, "", kFields)) return reader.status();
  record.made_of = ReadFingerprint(json, reader);
  if (json["config"].is_object()) {
    for (const auto& [key, value] : json["config"].items()) {
      record.config.emplace_back(key, reader.Text(value, "config." + OneLine(key)));
    }
  } else {
    reader.Wrong(json["config"], "config", "an object");
  }
  if (reader.IsList(json["requests"], "requests")) {
    if (json["requests"].empty()) reader.Fail("requests is empty");
    for (const Json& request : json["requests"]) {
      const std::string place = absl::StrCat("requests[", record.requests.size(), "]");
      record.requests.push_back(ReadRequest(request, place, reader));
      if (!reader.status().ok()) break;
    }
  }
  const std::string checksum = reader.Hash(json["checksum"], "checksum");
  NG_RETURN_IF_ERROR(reader.status());
  record.edited = checksum != Checksum(json);
  return record;
}

absl::StatusOr<RunRecord> ReadRecord(const std::string& path, const std::atomic<bool>* stop) {
  NG_ASSIGN_OR_RETURN(const std::string text, ReadText(path, kMaxBytes, stop));
  return ParseRecord(text, path);
}

}  // namespace ng::run
