// What every sampler stage must do, as a list of checks.
//
// A stage is driven through its interface alone. What a slot leaves of some logits is compared with
// what a fresh stage leaves after the same tokens, with the stage's definition when there is one,
// and with itself on other arrangements of the same candidates.
#ifndef NG_CONFORM_SAMPLER_H_
#define NG_CONFORM_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ng/conform/check.h"
#include "ng/plugin.h"
#include "ng/sampler.h"

namespace ng::conform {

using MakeSampler =
    std::function<absl::StatusOr<std::unique_ptr<SamplerStage>>(const PluginContext&)>;

// The vocabulary that stages are checked with: token 0 is the end of a text, a special token; then
// come digits, letters, signs and pairs of them.
inline constexpr int64_t kVocabSize = 64;

// A distribution by token: its logit, or -infinity for a token that cannot be drawn.
using TokenLogits = std::vector<float>;  // [vocab_size]

// The plain twin of a stage: what it leaves of `logits` for a sequence of these tokens.
using SamplerDefinition =
    std::function<TokenLogits(std::span<const int32_t> tokens, const TokenLogits& logits)>;

struct SamplerSubject {
  CheckSettings settings = {};
  MakeSampler make;
  SamplerDefinition definition = {};  // empty: the stage is compared with itself only
  // The state follows the answer (a grammar, a stage that steers by what was drawn): a token of the
  // prompt is not what the same token of the answer is, the stage is told only of tokens that it
  // has left, each after an Apply, and it may refuse logits that leave it nothing.
  bool constraint = false;
  PluginContext context = {};  // that it is made with, but for isa and the vocabulary
};

using SamplerCheck = Check<SamplerSubject>;
std::span<const SamplerCheck> SamplerChecks();

// All of them: RunChecks.
std::vector<std::string> CheckSampler(const SamplerSubject& subject);

}  // namespace ng::conform

#endif  // NG_CONFORM_SAMPLER_H_
