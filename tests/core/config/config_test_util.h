// What the tests of this folder share.
#ifndef NG_TESTS_CORE_CONFIG_CONFIG_TEST_UTIL_H_
#define NG_TESTS_CORE_CONFIG_CONFIG_TEST_UTIL_H_

#include <stdlib.h>  // mkdtemp

#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config.h"
#include "tests/support/temp_dir.h"

namespace ng {

// The core keys and the options of two sampler plugins.
inline std::vector<ConfigKey> KeysWithPlugins() {
  static constexpr OptionSpec kTopP = RealOption("p", 0.95, {.min = 0, .max = 1, .min_open = true},
                                                 "probability mass that is kept");
  static constexpr OptionSpec kIds =
      IntListOption("ids", "", {.min = 0, .max = 99}, "tokens never drawn");
  static constexpr OptionSpec kTopK =
      IntOption("k", 50, {.min = 1, .max = 1000000}, "candidates that are kept");
  std::vector<ConfigKey> keys(CoreConfigKeys().begin(), CoreConfigKeys().end());
  keys.push_back({"sampler.top_p.p", &kTopP});
  keys.push_back({"sampler.banned_tokens.ids", &kIds});
  keys.push_back({"sampler.top_k.k", &kTopK});
  return keys;
}

// The effective configuration of INI text (under the name "/etc/demo.ini") and overrides.
inline absl::StatusOr<Config> BuildConfig(std::string_view ini,
                                          const std::vector<std::string>& overrides = {},
                                          const std::vector<ConfigKey>& keys = KeysWithPlugins()) {
  NG_ASSIGN_OR_RETURN(std::vector<ConfigEntry> entries, ParseIni(ini, "/etc/demo.ini"));
  NG_ASSIGN_OR_RETURN(const std::vector<ConfigEntry> more, ParseOverrides(overrides));
  entries.insert(entries.end(), more.begin(), more.end());
  return MakeConfig(entries, keys);
}

}  // namespace ng

#endif  // NG_TESTS_CORE_CONFIG_CONFIG_TEST_UTIL_H_
