#include "ng/plugin.h"

#include "plugins/sampler/frequency_penalty/count_penalty.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::CountPenaltyValue("what is taken from the logit of each token that was used"),
    ng::kCountPenaltyWindow,
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<ng::CreateCountPenalty<ng::CountsAs::kPresence>>(
        "presence_penalty", "1.0.0", "makes tokens less probable that were used", kOptions);
