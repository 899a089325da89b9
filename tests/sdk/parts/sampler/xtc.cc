// Exclude top choices: now and then, all tokens that are probable enough are removed, but for the
// least probable of them.
#include <algorithm>
#include <cmath>

#include "ng/plugin.h"
#include "ng/sampler.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::RealOption("threshold", 0.1, {.min = 0, .max = 0.5, .min_open = true},
                   "least probability of a top choice"),
    ng::RealOption("probability", 0.5, {.min = 0, .max = 1}, "how often top choices are removed")};

class Xtc final : public ng::SamplerStage {
 public:
  explicit Xtc(const ng::PluginContext& context)
      : threshold_(context.options.Real("threshold")),
        probability_(context.options.Real("probability")) {}

  absl::Status Apply(int /*slot*/, const ng::DrawKey& key, ng::CandidateSet& set) override {
    NG_ASSIGN_OR_RETURN(const float max, set.MaxLogit());
    if (ng::UniformDraw(key) >= probability_) return absl::OkStatus();
    set.SortByLogit();
    double total = 0.0;
    for (const ng::Candidate& c : set.items()) total += std::exp(double{c.logit} - max);
    const double bar = max + std::log(threshold_ * total);
    const auto n_top = std::ranges::count_if(
        set.items(), [bar](const ng::Candidate& c) { return c.logit >= bar; });
    if (n_top > 1) set.KeepFrom(n_top - 1);
    return absl::OkStatus();
  }

 private:
  const double threshold_;
  const double probability_;
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<Xtc>("xtc", "1.0.0", "excludes top choices at random", kOptions);
