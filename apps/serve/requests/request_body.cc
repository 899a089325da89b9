#include "apps/serve/requests/request_body.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/common/json.h"
#include "ng/json.h"
#include "ng/ordered_json.h"

namespace ng::serve {
namespace {

constexpr int kMaxJsonDepth = 36;  // as --prompts

// "messages[1].content" -> "messages.content", as fields are called.
std::string FieldOf(const std::string& place) {
  std::string field;
  bool inside = false;
  for (const char c : place) {
    inside = c == '[' || (inside && c != ']');
    if (!inside && c != ']') field += c;
  }
  return field;
}

Parsed<Json> ParseObject(std::string_view body) {
  const absl::Status valid = CheckJson(body, "the body", kMaxJsonDepth);
  if (!valid.ok()) {
    const std::string place = JsonErrorPlace(valid);
    return ApiError{.message = absl::StrCat(valid.message(), place.empty() ? "" : ", in " + place),
                    .param = FieldOf(place),
                    .code = "invalid_json"};
  }
  Json json = ParseCheckedJson(body);
  if (!json.is_object()) {
    return ApiError{.message = absl::StrCat("the body is ", ShownJson(json), ", must be an object"),
                    .code = "invalid_json"};
  }
  return json;
}

// The place behind the text that begins at `at`; npos: it does not end.
size_t EndOfText(std::string_view json, size_t at) {
  for (++at; at < json.size() && json[at] != '"'; ++at) {
    if (json[at] == '\\') ++at;
  }
  return at < json.size() ? at + 1 : json.npos;
}

// The place behind the value that begins at `at`, where a comma or a bracket ends it.
size_t EndOfValue(std::string_view json, size_t at) {
  int depth = 0;
  while (at < json.size()) {
    const char c = json[at];
    if (c == '"') {
      at = EndOfText(json, at);
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth < 0 || (depth == 0 && c == ',')) return at;
    ++at;
  }
  return json.npos;
}

size_t BehindBlanks(std::string_view json, size_t at) {
  return std::min(json.find_first_not_of(" \t\r\n", at), json.size());
}

}  // namespace

std::optional<std::string_view> FindMember(std::string_view object, std::string_view name) {
  std::optional<std::string_view> found;
  size_t at = BehindBlanks(object, 0);
  if (at == object.size() || object[at] != '{') return std::nullopt;
  do {
    at = BehindBlanks(object, at + 1);
    if (at == object.size() || object[at] != '"') return std::nullopt;
    const size_t key = at + 1;
    const size_t key_end = EndOfText(object, at);
    if (key_end == object.npos) return std::nullopt;
    at = BehindBlanks(object, key_end);
    if (at == object.size() || object[at] != ':') return std::nullopt;
    at = BehindBlanks(object, at + 1);
    const size_t end = EndOfValue(object, at);
    if (end == object.npos) return std::nullopt;
    if (object.substr(key, key_end - 1 - key) == name) {
      if (found) return std::nullopt;
      found = object.substr(at, end - at);
    }
    at = end;
  } while (object[at] == ',');
  return found;
}

Parsed<RequestBody> ReadBody(std::string_view body, KnownTools* known) {
  const auto text = known == nullptr ? std::nullopt : FindMember(body, "tools");
  if (text) {
    if (std::shared_ptr<const Json> tools = known->Find(std::string(*text))) {
      // With null in its place the name is still there, so that it cannot come twice.
      const auto begin = static_cast<size_t>(text->data() - body.data());
      std::string rest(body.substr(0, begin));
      rest += "null";
      rest += body.substr(begin + text->size());
      Parsed<Json> left = ParseObject(rest);
      // An error is told of the body as it came.
      if (auto* const json = std::get_if<Json>(&left)) {
        return RequestBody{std::move(*json), std::move(tools)};
      }
    }
  }
  Parsed<Json> read = ParseObject(body);
  if (auto* const error = std::get_if<ApiError>(&read)) return std::move(*error);
  auto json = std::get<Json>(std::move(read));
  std::shared_ptr<const Json> tools;
  if (text && json.contains("tools")) {
    constexpr size_t kJsonFactor = 8;  // what a value takes more than its text
    tools = known->Add(std::string(*text), std::exchange(json["tools"], Json()),
                       kJsonFactor * text->size());
  }
  return RequestBody{std::move(json), std::move(tools)};
}

}  // namespace ng::serve
