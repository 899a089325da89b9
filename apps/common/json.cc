#include "apps/common/json.h"

#include "ng/json.h"

namespace ng {

absl::StatusOr<nlohmann::json> ParseUserJson(std::string_view text, const std::string& name,
                                             int max_depth) {
  NG_RETURN_IF_ERROR(CheckJson(text, name, max_depth));
  return nlohmann::json::parse(text);
}

std::string ShownJson(const nlohmann::json& value) {
  constexpr size_t kLongest = 80;
  std::string text =
      value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace ng
