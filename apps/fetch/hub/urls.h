// The addresses of a hub.
//
// Thread: pure functions.
#ifndef NG_APPS_FETCH_HUB_URLS_H_
#define NG_APPS_FETCH_HUB_URLS_H_

#include <string>
#include <string_view>

#include "ng/status.h"

namespace ng::fetch {

// What may stand in an address as it is, and "%2F" and such for the rest. `keep_slash`: a path of
// several names.
std::string Escaped(std::string_view text, bool keep_slash);

// What the hub knows of a revision of a repository, with the sizes and hashes of its files.
std::string ListingUrl(const std::string& endpoint, const std::string& repository,
                       const std::string& revision);
std::string FileUrl(const std::string& endpoint, const std::string& repository,
                    const std::string& commit, const std::string& path);

// "https://host:443" of an address; empty where it is none of http or https.
std::string OriginOf(const std::string& url);
// "host" or "host:8080", as a user knows it.
std::string HostOf(const std::string& url);

// Where an answer from `url` leads to. Errors: ModelFileError: that is no address, or it is not
// encrypted and `url` is.
absl::StatusOr<std::string> Redirected(const std::string& url, const std::string& location);

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_HUB_URLS_H_
