// What a request says of sampling, as settings of the config: "sampler.chain=...". The same
// settings on the command line of ng-run give the same answer.
#ifndef NG_APPS_SERVE_REQUESTS_SAMPLER_SETTINGS_H_
#define NG_APPS_SERVE_REQUESTS_SAMPLER_SETTINGS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/requests/openai_requests.h"
#include "ng/config.h"

namespace ng::serve {

struct SamplerSettings {
  std::vector<std::string> settings;          // "section.key=value" each
  std::map<std::string, std::string> fields;  // a key that is set -> the field that did it
};

// None where the request says nothing. The config's chain gets the stages that it lacks, at their
// usual places. A temperature of 0 is the stage greedy, and any other one takes it out of the
// chain. `stop_ids`: those that end an answer.
SamplerSettings SettingsOf(const SamplingFields& fields, const Config& config,
                           std::span<const int32_t> stop_ids);

// The shortest digits that are exactly this number.
std::string Digits(double value);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_REQUESTS_SAMPLER_SETTINGS_H_
