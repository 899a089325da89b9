// Which hub, whose token and which cache: what the environment says, as for the hub's own library.
#ifndef NG_APPS_FETCH_HUB_SETTINGS_H_
#define NG_APPS_FETCH_HUB_SETTINGS_H_

#include <string>

#include "ng/status.h"

namespace ng::fetch {

struct HubSettings {
  std::string endpoint;  // "https://huggingface.co", without a slash at its end
  std::string origin;    // of the endpoint: the only one that the token is sent to
  std::string token;     // empty: none
  std::string cache;     // the folder with models--ORG--NAME
};

// HF_ENDPOINT, HF_TOKEN or the token's file (HF_TOKEN_PATH, HF_HOME), HF_HUB_CACHE or HF_HOME.
// Errors: UsageError: a value that cannot be meant, no home, or HF_HUB_OFFLINE is set.
absl::StatusOr<HubSettings> ReadHubSettings();

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_HUB_SETTINGS_H_
