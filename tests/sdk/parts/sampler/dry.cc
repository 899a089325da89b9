// DRY: a token that would go on with a repetition of n >= allowed tokens is made less probable, by
// multiplier * base^(n - allowed). A repetition does not reach over a breaker.
#include <algorithm>
#include <cmath>
#include <string>

#include "part.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {
    ng_parts::Real("multiplier", "0.8", 0, 100, "penalty of the shortest repetition"),
    ng_parts::Real("base", "1.75", 1, 10, "factor for each further token"),
    ng_parts::Int("allowed", "2", 1, 1024, "tokens that may repeat"),
    ng_parts::Text("breakers", "\\n : \" *",
                   "texts separated by blanks; a token that holds one breaks; \\n: a line's end")};

class Dry final : public ng::SamplerStage {
 public:
  explicit Dry(const ng::PluginContext& context)
      : multiplier_(context.options.Real("multiplier")),
        base_(context.options.Real("base")),
        allowed_(context.options.Int("allowed")),
        breaks_(context.model.vocab_size),
        repeated_(context.model.vocab_size) {
    for (std::string_view text : ng_parts::Split(context.options.Text("breakers"), ' ')) {
      if (text == "\\n") text = "\n";
      for (size_t id = 0; id < context.token_bytes.size() && !text.empty(); ++id) {
        if (context.token_bytes[id].find(text) != std::string_view::npos) breaks_[id] = true;
      }
    }
  }

  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override {
    tokens_[slot].assign(prompt_ids.begin(), prompt_ids.end());
    return absl::OkStatus();
  }
  absl::StatusOr<ng::SequenceEnd> Accept(int slot, int32_t token) override {
    tokens_[slot].push_back(token);
    return ng::SequenceEnd::kNo;
  }
  absl::Status Fork(int from, int to) override { return tokens_.Copy(from, to); }
  absl::Status Truncate(int slot, int64_t n_tokens) override {
    tokens_[slot].resize(n_tokens);
    return absl::OkStatus();
  }

  absl::Status Apply(int slot, const ng::DrawKey& /*key*/, ng::CandidateSet& set) override {
    const std::vector<int32_t>& tokens = tokens_[slot];
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
  int64_t CommonEnd(const std::vector<int32_t>& tokens, int64_t end) const {
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
  ng_parts::Slots<std::vector<int32_t>> tokens_;
};

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::SamplerPlugin<ng_parts::Make<Dry>>("dry", "1.0.0", "penalises repetitions", kOptions);
