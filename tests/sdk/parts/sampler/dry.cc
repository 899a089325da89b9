// DRY: a token that would go on with a repetition of n >= allowed tokens is made less probable, by
// multiplier * base^(n - allowed). A repetition does not reach over a breaker.
#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "ng/history_stage.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng::RealOption("multiplier", 0.8, {.min = 0, .max = 100}, "penalty of the shortest repetition"),
    ng::RealOption("base", 1.75, {.min = 1, .max = 10}, "factor for each further token"),
    ng::IntOption("allowed", 2, {.min = 1, .max = 1024}, "tokens that may repeat"),
    ng::TextListOption("breakers", "\\n,:,\",*", "a token that holds one of these texts breaks")};

class Dry final : public ng::TokenHistoryStage {
 public:
  explicit Dry(const ng::PluginContext& context)
      : TokenHistoryStage(context.model),
        multiplier_(context.options.Real("multiplier")),
        base_(context.options.Real("base")),
        allowed_(context.options.Int("allowed")),
        breaks_(context.model.vocab_size),
        repeated_(context.model.vocab_size) {
    for (const std::string_view text : context.options.TextList("breakers")) {
      for (size_t id = 0; id < context.token_bytes.size(); ++id) {
        if (context.token_bytes[id].find(text) != std::string_view::npos) breaks_[id] = true;
      }
    }
  }

  absl::Status Apply(int slot, const ng::DrawKey& /*key*/, ng::CandidateSet& set) override {
    const std::span<const int32_t> tokens = History(slot);
    std::ranges::fill(repeated_, 0);
    for (int64_t end = std::ssize(tokens) - 1; end > 0; --end) {
      if (breaks_[tokens[end]]) continue;
      int64_t& longest = repeated_[tokens[end]];
      longest = std::max(longest, CommonEnd(tokens, end));
    }
    for (ng::Candidate& c : set.items()) {
      const int64_t more = repeated_[c.id] - allowed_;
      if (more >= 0) c.logit -= static_cast<float>(multiplier_ * std::pow(base_, more));
    }
    return ng::Annotate(set.MaxLogit().status(), "after the penalties of dry: ");
  }

 private:
  // How many tokens before `end` are those at the end of all.
  int64_t CommonEnd(std::span<const int32_t> tokens, int64_t end) const {
    constexpr int64_t kLongest = 64;  // a longer one is not told apart
    const int64_t n_all = std::ssize(tokens);
    int64_t n = 0;
    while (n < end && n < kLongest && tokens[end - 1 - n] == tokens[n_all - 1 - n] &&
           !breaks_[tokens[end - 1 - n]]) {
      ++n;
    }
    return n;
  }

  const double multiplier_;
  const double base_;
  const int64_t allowed_;
  std::vector<bool> breaks_;       // [vocab_size]
  std::vector<int64_t> repeated_;  // [vocab_size]: the repetition that a token would go on with
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<Dry>("dry", "1.0.0", "penalises repetitions", kOptions);
