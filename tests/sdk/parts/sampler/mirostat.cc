// Mirostat 2 (Basu et al. 2021): keeps the tokens whose surprise is at most mu, and moves mu by how
// far the surprise of the token drawn is from the one to hold.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "part.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng_parts::Real("tau", "5", 1e-9, 100, "the surprise to hold, in bits"),
    ng_parts::Real("eta", "0.1", 0, 10, "how fast it is held")};

struct State {
  int64_t n_prompt = 0;
  std::vector<double> mus;  // behind the prompt and behind each token since
  // Of the step's candidates.
  std::vector<ng::Candidate> kept;
  double log_total = 0.0;
};

double LogSum(const ng::CandidateSet& set, float max) {
  double total = 0.0;
  for (const ng::Candidate& c : set.items()) total += std::exp(double{c.logit} - max);
  return max + std::log(total);
}

class Mirostat final : public ng::SamplerStage {
 public:
  explicit Mirostat(const ng::PluginContext& context)
      : tau_(context.options.Real("tau")), eta_(context.options.Real("eta")) {}

  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override {
    states_[slot] = {.n_prompt = std::ssize(prompt_ids), .mus = {2 * tau_}, .kept = {}};
    return absl::OkStatus();
  }
  absl::Status Fork(int from, int to) override { return states_.Copy(from, to); }
  absl::Status Truncate(int slot, int64_t n_tokens) override {
    State& state = states_[slot];
    state.n_prompt = std::min(state.n_prompt, n_tokens);
    state.mus.resize(n_tokens - state.n_prompt + 1);
    return absl::OkStatus();
  }

  absl::Status Apply(int slot, const ng::DrawKey& /*key*/, ng::CandidateSet& set) override {
    NG_ASSIGN_OR_RETURN(const float max, set.MaxLogit());
    State& state = states_[slot];
    // log2(1 / p) <= mu, as a bar for the logit.
    const double bar = LogSum(set, max) - state.mus.back() * std::numbers::ln2;
    set.KeepAtLeast(std::min(bar, double{max}));
    state.kept.assign(set.items().begin(), set.items().end());
    state.log_total = LogSum(set, max);
    return absl::OkStatus();
  }
  absl::StatusOr<ng::SequenceEnd> Accept(int slot, int32_t token) override {
    State& state = states_[slot];
    double mu = state.mus.back();
    const auto drawn = std::ranges::find(state.kept, token, &ng::Candidate::id);
    if (drawn != state.kept.end()) {
      mu -= eta_ * ((state.log_total - drawn->logit) / std::numbers::ln2 - tau_);
    }
    state.mus.push_back(mu);
    return ng::SequenceEnd::kNo;
  }

 private:
  const double tau_;
  const double eta_;
  ng_parts::Slots<State> states_;
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<ng_parts::Make<Mirostat>>("mirostat", "1.0.0",
                                                "holds the surprise of the text", kOptions);
