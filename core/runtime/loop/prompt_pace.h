// PromptPace: how many tokens of prompts a step takes beside sequences that decode, so that their
// next tokens come not much later than without the prompts. Goes by what steps have taken so far.
//
// No bit depends on it: a prompt may be fed in any pieces. Thread: the engine's.
#ifndef NG_CORE_RUNTIME_LOOP_PROMPT_PACE_H_
#define NG_CORE_RUNTIME_LOOP_PROMPT_PACE_H_

#include <algorithm>
#include <cstdint>
#include <limits>

namespace ng {

class PromptPace {
 public:
  struct StepTokens {
    int64_t all = 0;
    int64_t of_prompts = 0;
  };

  // `most_s`: how much longer a step may take, about; or twice as long as it takes without prompts,
  // if that is more. 0: any.
  explicit PromptPace(double most_s) : most_s_(most_s) {}

  // The most tokens of prompts in the next step that decodes too.
  int64_t TokensBeside() const {
    if (most_s_ <= 0.0) return std::numeric_limits<int64_t>::max();
    if (token_s_ <= 0.0) return kFirst;
    return static_cast<int64_t>(std::clamp(std::max(most_s_, decode_s_) / token_s_, 1.0, kMost));
  }

  // What a step has taken.
  void Took(double seconds, const StepTokens& tokens) {
    if (tokens.of_prompts == 0) return Learn(seconds, &decode_s_);
    const auto n_prompts = static_cast<double>(tokens.of_prompts);
    const double share = seconds * n_prompts / static_cast<double>(tokens.all);
    const bool decodes = tokens.of_prompts < tokens.all;
    Learn(std::max(share, decodes ? seconds - decode_s_ : seconds) / n_prompts, &token_s_);
  }

 private:
  static constexpr int64_t kFirst = 16;  // while nothing is known
  static constexpr double kMost = 1e9;

  static void Learn(double seen, double* known) {
    constexpr double kNewest = 0.3;
    *known += *known <= 0.0 ? seen : kNewest * (seen - *known);
  }

  double most_s_;
  double decode_s_ = 0.0;  // of a step without prompts
  double token_s_ = 0.0;   // what a prompt's token adds to a step
};

}  // namespace ng

#endif  // NG_CORE_RUNTIME_LOOP_PROMPT_PACE_H_
