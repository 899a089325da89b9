#include "apps/serve/access.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ng::serve {
namespace {

// "localhost:8080" -> "localhost", "[::1]:8080" -> "::1", in lower case.
std::string NameOf(const std::string& host) {
  std::string name = absl::AsciiStrToLower(host);
  if (name.starts_with('[')) return name.substr(1, name.find(']') - 1);
  name.resize(std::min(name.size(), name.find(':')));
  return name;
}

bool IsOwnName(const std::string& name, const Settings& settings) {
  boost::system::error_code error;
  boost::asio::ip::make_address(name, error);
  return !error || name == "localhost" || std::ranges::count(settings.names, name) > 0;
}

}  // namespace

std::optional<ApiError> CheckSource(const HttpRequest& request, const Settings& settings) {
  const std::string name = NameOf(request.host);
  if (!IsOwnName(name, settings)) {
    return ApiError{.status = kForbidden,
                    .message = absl::StrCat("the Host is '", request.host,
                                            "', must be localhost, an address, or a name of "
                                            "serve.names"),
                    .code = "host_not_allowed"};
  }
  const std::string origin = absl::AsciiStrToLower(request.origin);
  const std::string host = absl::AsciiStrToLower(request.host);
  // A proxy in front of the server may speak https.
  if (!origin.empty() && origin != "http://" + host && origin != "https://" + host) {
    return ApiError{.status = kForbidden,
                    .message = absl::StrCat("the Origin is '", request.origin,
                                            "', must be the server itself: other pages may not "
                                            "use it"),
                    .code = "origin_not_allowed"};
  }
  return std::nullopt;
}

bool SameSecret(std::string_view secret, std::string_view given) {
  auto difference = static_cast<uint32_t>(secret.size() != given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = secret.empty() ? '\0' : secret[i % secret.size()];
    difference |= static_cast<uint8_t>(expected ^ given[i]);
  }
  return difference == 0;
}

std::optional<ApiError> CheckKey(const HttpRequest& request, const Settings& settings) {
  if (settings.key.empty()) return std::nullopt;
  constexpr std::string_view kScheme = "Bearer ";
  std::string_view given = request.authorization;
  const bool bearer = given.starts_with(kScheme);
  given.remove_prefix(bearer ? kScheme.size() : 0);
  if (SameSecret(settings.key, given) && bearer) return std::nullopt;
  if (SameSecret(settings.key, request.api_key)) return std::nullopt;
  if (given.empty()) given = request.api_key;
  return ApiError{
      .status = kUnauthorized,
      .message = given.empty()
                     ? "no key was sent; send Authorization: Bearer KEY, or X-Api-Key: KEY"
                     : "the key is not the server's",
      .code = "invalid_api_key"};
}

}  // namespace ng::serve
