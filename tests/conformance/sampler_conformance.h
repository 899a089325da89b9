// The suite that every sampler stage must pass, in this tree or out of it.
//
// It drives a stage through its interface alone and compares what a slot leaves of some logits with
// what a fresh stage leaves after the same tokens, with the stage's definition when there is one,
// and with itself on other arrangements of the same candidates.
#ifndef NG_TESTS_CONFORMANCE_SAMPLER_CONFORMANCE_H_
#define NG_TESTS_CONFORMANCE_SAMPLER_CONFORMANCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ng/sampler.h"

namespace ng {

// A distribution by token: its logit, or -infinity for a token that cannot be drawn.
using TokenLogits = std::vector<float>;  // [vocab_size]

// The plain twin of a stage: what it leaves of `logits` for a sequence of these tokens.
using SamplerDefinition =
    std::function<TokenLogits(std::span<const int32_t> tokens, const TokenLogits& logits)>;

struct SamplerCase {
  std::string name;
  int64_t vocab_size = 40;
  std::function<absl::StatusOr<std::unique_ptr<SamplerStage>>()> create;  // for this vocabulary
  SamplerDefinition definition;  // empty: the stage is compared with itself only
  // The stage tells tokens apart by their logits alone, so equal ones must fall to the lowest id;
  // false for stages with a list of tokens or a memory of them.
  bool by_logit_alone = true;
};

// What is wrong with the stage, a line each; empty when it conforms.
std::vector<std::string> CheckSampler(const SamplerCase& sampler);

}  // namespace ng

#endif  // NG_TESTS_CONFORMANCE_SAMPLER_CONFORMANCE_H_
