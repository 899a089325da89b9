#include "ng/plugin.h"

#include "plugins/attention/sparse/sparse_attention.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::IntOption("pages", 64, {.min = 2},
                  "pages of 16 tokens that each token reads of a kv head: the first that it sees, "
                  "its own and the best"),
    ng::BoolOption("measure", false,
                   "say how much attention the other pages would have had, at the end and for "
                   "each token (--steps); reads them for it"),
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::WithProfile(
    ng::PartProfile::kMasked,
    ng::AttentionPlugin<ng::SparseAttention>(
        "sparse", "1.0.0", "as flash, over the pages of keys that matter most to each token",
        kOptions));
