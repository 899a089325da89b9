// The descriptor of the drafter `ngram`.
#include "ng/plugin.h"

#include "plugins/drafter/ngram/ngram.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::IntOption("min", 2, {.min = 1, .max = 64},
                  "the last tokens must have been there before, so many of them at least"),
    ng::IntOption("max", 8, {.min = 1, .max = 64},
                  "the longest run of last tokens that is looked for")};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::DrafterPlugin<ng::NgramDrafter::Create>(
        "ngram", "1.0.0", "proposes what followed the last tokens earlier in the text", kOptions);
