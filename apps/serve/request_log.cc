#include "apps/serve/request_log.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ng/status.h"
#include "ng/utf8.h"

namespace ng::serve {
namespace {

std::string TimeText(const char* format, const std::tm& parts) {
  char text[40];
  return {text, std::strftime(text, sizeof(text), format, &parts)};
}

// A path on a screen: its beginning, where it is long. Cut between characters.
std::string ShownPath(const std::string& path) {
  constexpr size_t kLongest = 100;
  const std::string_view head = Utf8Prefix(path, kLongest);
  return absl::StrCat(OneLine(head), head.size() < path.size() ? "..." : "");
}

}  // namespace

std::string TextLogLine(const Answered& answered, const std::string& model, std::time_t now) {
  std::tm parts = {};
  localtime_r(&now, &parts);
  std::string line = absl::StrCat(TimeText("%H:%M:%S", parts), " ", answered.client, " ");
  absl::StrAppend(&line, answered.method.empty()
                             ? "no request"
                             : absl::StrCat(answered.method, " ", ShownPath(answered.path)));
  if (answered.tokens_in) {
    absl::StrAppend(&line, " ", model, ", ", *answered.tokens_in, " tokens in, ",
                    answered.tokens_out.value_or(0), " out");
  }
  absl::StrAppendFormat(&line, ", %.2f s", answered.seconds);
  if (answered.status > 0) absl::StrAppend(&line, ", ", answered.status);
  return absl::StrCat(line, answered.gone ? ", the client has gone" : "", "\n");
}

std::string JsonLogLine(const Answered& answered, const std::string& model, std::time_t now) {
  using Json = nlohmann::ordered_json;
  std::tm parts = {};
  gmtime_r(&now, &parts);
  const auto or_null = [](const std::optional<int64_t>& n) { return n ? Json(*n) : Json(nullptr); };
  Json json = Json::object();
  json["time"] = TimeText("%Y-%m-%dT%H:%M:%SZ", parts);
  json["client"] = answered.client;
  json["method"] = answered.method;
  json["path"] = answered.path;
  json["model"] = model;
  json["tokens_in"] = or_null(answered.tokens_in);
  json["tokens_out"] = or_null(answered.tokens_out);
  json["seconds"] = answered.seconds;
  json["status"] = answered.status;
  json["gone"] = answered.gone;
  return json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace ng::serve
