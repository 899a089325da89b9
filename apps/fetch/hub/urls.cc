#include "apps/fetch/hub/urls.h"

#include <curl/curl.h>

#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ng::fetch {
namespace {

using Url = std::unique_ptr<CURLU, void (*)(CURLU*)>;

Url Parsed(const std::string& text) {
  Url url(curl_url(), curl_url_cleanup);
  if (url != nullptr && curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
    url.reset();
  }
  return url;
}

std::string PartOf(const Url& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return {};
  std::string copy = text;
  curl_free(text);
  return copy;
}

}  // namespace

std::string Escaped(std::string_view text, bool keep_slash) {
  constexpr std::string_view kPlain = "-._~";
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || kPlain.find(c) != kPlain.npos || (keep_slash && c == '/')) {
      escaped += c;
    } else {
      absl::StrAppendFormat(&escaped, "%%%02X", byte);
    }
  }
  return escaped;
}

std::string ListingUrl(const std::string& endpoint, const std::string& repository,
                       const std::string& revision) {
  return absl::StrCat(endpoint, "/api/models/", Escaped(repository, true), "/revision/",
                      Escaped(revision, false), "?blobs=true");
}

std::string FileUrl(const std::string& endpoint, const std::string& repository,
                    const std::string& commit, const std::string& path) {
  return absl::StrCat(endpoint, "/", Escaped(repository, true), "/resolve/", Escaped(commit, false),
                      "/", Escaped(path, true));
}

std::string OriginOf(const std::string& url) {
  const Url parsed = Parsed(url);
  if (parsed == nullptr) return {};
  const std::string scheme = absl::AsciiStrToLower(PartOf(parsed, CURLUPART_SCHEME));
  if (scheme != "http" && scheme != "https") return {};
  const std::string host = absl::AsciiStrToLower(PartOf(parsed, CURLUPART_HOST));
  if (host.empty()) return {};
  return absl::StrCat(scheme, "://", host, ":", PartOf(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

std::string HostOf(const std::string& url) {
  const Url parsed = Parsed(url);
  if (parsed == nullptr) return {};
  const std::string port = PartOf(parsed, CURLUPART_PORT);
  return absl::StrCat(PartOf(parsed, CURLUPART_HOST), port.empty() ? "" : ":", port);
}

absl::StatusOr<std::string> Redirected(const std::string& url, const std::string& location) {
  const Url parsed = Parsed(url);
  const bool known = parsed != nullptr &&
                     curl_url_set(parsed.get(), CURLUPART_URL, location.c_str(), 0) == CURLUE_OK;
  std::string target = known ? PartOf(parsed, CURLUPART_URL) : std::string();
  const std::string origin = OriginOf(target);
  if (origin.empty()) {
    return ModelFileError(absl::StrCat(url, ": leads to \"", location, "\", which is no address"));
  }
  if (OriginOf(url).starts_with("https:") && !origin.starts_with("https:")) {
    return ModelFileError(absl::StrCat(url, ": leads to ", target, ", which is not encrypted"));
  }
  return target;
}

}  // namespace ng::fetch
