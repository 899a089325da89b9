// Mirostat 2 (Basu et al. 2021): keeps the tokens whose surprise is at most mu, and moves mu by how
// far the surprise of the token drawn is from the one to hold.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <vector>

#include "ng/history_stage.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::RealOption("tau", 5, {.min = 0, .max = 100, .min_open = true},
                   "the surprise to hold, in bits"),
    ng::RealOption("eta", 0.1, {.min = 0, .max = 10}, "how fast it is held")};

double LogSum(const ng::CandidateSet& set, float max) {
  double total = 0.0;
  for (const ng::Candidate& c : set.items()) total += std::exp(double{c.logit} - max);
  return max + std::log(total);
}

// What it remembers behind each token is mu.
class Mirostat final : public ng::HistoryStage<double> {
 public:
  explicit Mirostat(const ng::PluginContext& context)
      : HistoryStage(context.model, 2 * context.options.Real("tau")),
        tau_(context.options.Real("tau")),
        eta_(context.options.Real("eta")) {}

  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override {
    left_[slot] = {};
    return HistoryStage::Open(slot, prompt_ids);
  }
  absl::Status Apply(int slot, const ng::DrawKey& /*key*/, ng::CandidateSet& set) override {
    NG_ASSIGN_OR_RETURN(const float max, set.MaxLogit());
    // log2(1 / p) <= mu, as a bar for the logit.
    const double bar = LogSum(set, max) - Last(slot) * std::numbers::ln2;
    set.KeepAtLeast(std::min(bar, double{max}));
    Left& left = left_[slot];
    left.items.assign(set.items().begin(), set.items().end());
    left.log_total = LogSum(set, max);
    return absl::OkStatus();
  }
  absl::StatusOr<ng::SequenceEnd> Accept(int slot, int32_t token) override {
    const Left& left = left_[slot];
    double mu = Last(slot);
    const auto drawn = std::ranges::find(left.items, token, &ng::Candidate::id);
    if (drawn != left.items.end()) {
      mu -= eta_ * ((left.log_total - drawn->logit) / std::numbers::ln2 - tau_);
    }
    Remember(slot, mu);
    return ng::SequenceEnd::kNo;
  }

 private:
  // The candidates that the last Apply left.
  struct Left {
    std::vector<ng::Candidate> items;
    double log_total = 0.0;
  };

  const double tau_;
  const double eta_;
  std::map<int, Left> left_;  // by slot
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<Mirostat>("mirostat", "1.0.0", "holds the surprise of the text", kOptions);
