// The section [serve] of the config, checked.
#ifndef NG_APPS_SERVE_SETTINGS_H_
#define NG_APPS_SERVE_SETTINGS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/serve/answers/disk_paths.h"
#include "apps/serve/http/server.h"
#include "ng/config.h"
#include "ng/status.h"

namespace ng::serve {

struct Settings {
  std::string address;  // in digits
  int port = 0;
  std::string key;                 // empty: none is asked for
  std::vector<std::string> names;  // of this machine, in lower case
  std::string model;               // its name in requests
  // What requests may name: the model, and with each adapter of model.named_adapters
  // "MODEL:ADAPTER".
  std::vector<std::string> models;
  HttpLimits http;
  int max_queued = 0;
  std::chrono::seconds answer{};  // 0: no limit
  std::chrono::seconds
      alive{};        // without a byte of a stream before it shows that it lives; 0: never
  int responses = 0;  // conversations that are kept for a next response
  enum class Log { kNone, kText, kJson } log = Log::kNone;  // a line for each request
  size_t views = 0;                                         // answers that can be looked into
  bool marks = false;  // the engine is told where later prompts leave a prompt
  DiskPaths paths;     // that no reply shows
  // Known once the model is open, so not by ReadSettings: tokens that each sequence has room for
  // when all are open; what the weights take, and the type of most of them.
  int64_t shared_tokens = 0;
  int64_t weight_bytes = 0;
  std::string weights;
};

// The adapter in one of Settings::models; empty: none.
std::string AdapterIn(const std::string& model, const Settings& settings);

// Errors: UsageError for a host that is no address, or that others reach while no key is set.
absl::StatusOr<Settings> ReadSettings(const Config& config);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_SETTINGS_H_
