#include "core/text/chat/template_variables.h"

#include <charconv>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/text/chat/conversation_json.h"
#include "core/text/jinja/template.h"
#include "ng/names.h"

namespace ng {
namespace {

using OrderedJson = nlohmann::ordered_json;

// "2026-11-22" -> its beginning.
absl::StatusOr<jinja::Moment> ReadDate(const std::string& date) {
  namespace chrono = std::chrono;
  int parts[3] = {};
  const char* at = date.data();
  bool is_date = date.size() == 10 && date[4] == '-' && date[7] == '-';
  for (size_t i = 0; is_date && i < 3; ++i) {
    const char* const end = at + (i == 0 ? 4 : 2);
    const auto [stop, error] = std::from_chars(at, end, parts[i]);
    is_date = error == std::errc() && stop == end && parts[i] > 0;
    at = end + 1;
  }
  const chrono::year_month_day day(chrono::year(parts[0]),
                                   chrono::month(static_cast<unsigned>(parts[1])),
                                   chrono::day(static_cast<unsigned>(parts[2])));
  if (!is_date || !day.ok()) {
    return UsageError(absl::StrCat("date = ", date, ", must be a date like 2026-11-22"));
  }
  return jinja::Moment{chrono::seconds(chrono::sys_days(day).time_since_epoch()).count()};
}

std::string DateOf(const jinja::Moment& moment) {
  namespace chrono = std::chrono;
  const chrono::sys_seconds at{chrono::seconds(moment.seconds_since_1970)};
  const chrono::year_month_day day(chrono::floor<chrono::days>(at));
  const auto two = [](unsigned n) { return absl::Dec(n, absl::kZeroPad2); };
  return absl::StrCat(static_cast<int>(day.year()), "-", two(static_cast<unsigned>(day.month())),
                      "-", two(static_cast<unsigned>(day.day())));
}

}  // namespace

absl::StatusOr<TemplateVariables> TemplateVariables::Make(SpecialTokens special_tokens, Names names,
                                                          const std::string& name,
                                                          const ChatOptions& options) {
  TemplateVariables variables;
  variables.special_tokens_ = std::move(special_tokens);
  variables.names_ = std::move(names);
  NG_RETURN_IF_ERROR(variables.Set(name, options));
  return variables;
}

bool TemplateVariables::IsOwn(const std::string& name) const {
  return name == "messages" || name == "tools" || special_tokens_.contains(name);
}

absl::Status TemplateVariables::Set(const std::string& name, const ChatOptions& options) {
  now_ = jinja::LocalNow();
  if (!options.date.empty()) {
    NG_ASSIGN_OR_RETURN(now_, ReadDate(options.date));
  }
  if (names_.contains("strftime_now")) date_ = DateOf(now_);
  values_["add_generation_prompt"] = true;
  values_["documents"] = nullptr;
  for (const auto& [token, literal] : special_tokens_) values_[token] = literal;
  auto& members = values_.get_ref<OrderedJson::object_t&>();
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < members.size(); ++i) places.emplace(members.begin()[i].first, i);
  for (const auto& [variable, text] : options.variables) {
    const std::string shown = absl::StrCat("template.", variable, " = ", text, ": ");
    if (IsOwn(variable)) {
      return UsageError(absl::StrCat(shown, "this variable is not the user's to set"));
    }
    if (!names_.contains(variable)) {
      const std::optional<std::string> nearest =
          NearestName(variable, std::vector<std::string>(names_.begin(), names_.end()));
      return UsageError(absl::StrCat(shown, "the chat template ", name, " reads no such variable",
                                     nearest ? "; did you mean " + *nearest + "?" : ""));
    }
    const absl::StatusOr<OrderedJson> value = ReadVariable(text);
    if (!value.ok()) return Annotate(value.status(), shown);
    const auto [place, is_new] = places.emplace(variable, members.size());
    if (is_new) members.emplace_back(variable, nullptr);
    members.begin()[place->second].second = *value;
  }
  return absl::OkStatus();
}

absl::Status TemplateVariables::AddTo(const std::string& text, OrderedJson* values) const {
  if (text.empty()) return absl::OkStatus();
  NG_ASSIGN_OR_RETURN(const OrderedJson given, ParseVariables(text));
  for (const auto& [name, value] : given.items()) {
    if (IsOwn(name)) {
      return UsageError(
          absl::StrCat("variables: ", name, ": this variable is not the user's to set"));
    }
    if (names_.contains(name)) (*values)[name] = value;
  }
  return absl::OkStatus();
}

}  // namespace ng
