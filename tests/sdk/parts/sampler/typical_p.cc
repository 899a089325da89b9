// Locally typical sampling (Meister et al. 2022): keeps the tokens whose surprise is nearest to the
// expected one, the fewest whose mass reaches p.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "ng/plugin.h"
#include "ng/sampler.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {ng::RealOption("p", 0.95,
                                                      {.min = 0, .max = 1, .min_open = true},
                                                      "mass of the most typical tokens that stay")};

class TypicalP final : public ng::SamplerStage {
 public:
  explicit TypicalP(const ng::PluginContext& context) : p_(context.options.Real("p")) {}

  absl::Status Apply(int /*slot*/, const ng::DrawKey& /*key*/, ng::CandidateSet& set) override {
    NG_ASSIGN_OR_RETURN(const float max, set.MaxLogit());
    if (p_ == 1.0) return absl::OkStatus();
    const std::span<ng::Candidate> items = set.items();
    double total = 0.0;
    double weighted = 0.0;
    for (const ng::Candidate& c : items) {
      const double weight = std::exp(double{c.logit} - max);
      total += weight;
      if (weight > 0.0) weighted += weight * (double{c.logit} - max);
    }
    const double expected = max + weighted / total;  // a logit of just the expected surprise
    std::ranges::sort(items, {}, [expected](const ng::Candidate& c) {
      return std::tuple(std::abs(c.logit - expected), c.id);
    });
    double mass = 0.0;
    int64_t n = 0;
    while (n < set.size() && mass < p_ * total) mass += std::exp(double{items[n++].logit} - max);
    set.KeepFirst(n);
    return absl::OkStatus();
  }

 private:
  const double p_;
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<TypicalP>("typical_p", "1.0.0", "keeps the typical tokens", kOptions);
