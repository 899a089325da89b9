#include "ng/plugin.h"

#include "plugins/sampler/frequency_penalty/count_penalty.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::CountPenaltyValue("what each use of a token takes from its logit"),
    ng::kCountPenaltyWindow,
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<ng::CreateCountPenalty<ng::CountsAs::kFrequency>>(
        "frequency_penalty", "1.0.0", "makes tokens less probable the more often they were used",
        kOptions);
