// The descriptor of the drafter `replay`.
#include "ng/plugin.h"

#include "plugins/drafter/replay/replay.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::WithExample(
        ng::TextOption(
            "file", "",
            "the answers to propose: a line of ids for each request, as ng-run prints them "
            "for a model without a tokenizer"),
        "answers.txt"),
    ng::RealOption("error", 0.0, {.min = 0.0, .max = 1.0},
                   "share of the tokens that are proposed wrongly, each drawn by itself"),
    ng::IntOption("seed", 1, {.min = 0}, "seed of these draws")};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::DrafterPlugin<ng::ReplayDrafter::Create>(
        "replay", "1.0.0", "proposes the answers of a file at a set error rate, for measuring",
        kOptions);
