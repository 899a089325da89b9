// What a request says of sampling, as settings of the config: "sampler.chain=...". The same
// settings on the command line of ng-run give the same answer.
#ifndef NG_APPS_SERVE_SAMPLER_SETTINGS_H_
#define NG_APPS_SERVE_SAMPLER_SETTINGS_H_

#include <string>
#include <variant>
#include <vector>

#include "apps/serve/openai_requests.h"
#include "ng/config.h"

namespace ng::serve {

// "section.key=value" each; none where the request says nothing. The config's chain gets the stages
// that it lacks, at their usual places. A temperature of 0 is the stage greedy, and any other one
// takes it out of the chain. Errors: 400 for a stop text that a config cannot hold.
Parsed<std::vector<std::string>> SamplerSettings(const SamplingFields& fields,
                                                 const Config& config);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_SAMPLER_SETTINGS_H_
