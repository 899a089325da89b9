// Drives a stage for the checks: makes it with a vocabulary, hands it candidates in several
// arrangements, and notes everything that holds of no result.
#ifndef NG_CORE_CONFORM_SAMPLER_RIG_H_
#define NG_CORE_CONFORM_SAMPLER_RIG_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/conform/sampler.h"

namespace ng::conform {

using Tokens = std::vector<int32_t>;

inline constexpr float kInf = std::numeric_limits<float>::infinity();

// How the same candidates are handed to a stage.
enum class Arrangement {
  kDense,
  kRow,       // dense and not listed
  kSorted,    // sparse, by falling logit
  kReversed,  // sparse, by falling id
  kDrawable,  // sparse, without those at -infinity
};
const char* Name(Arrangement arrangement);

// What a slot has been through: a prompt, then tokens, each chosen from one of the rig's inputs.
struct History {
  struct Step {
    int32_t token = 0;
    size_t input = 0;
  };
  Tokens prompt;
  std::vector<Step> steps;

  int64_t length() const { return std::ssize(prompt) + std::ssize(steps); }
  // Its first `n` tokens.
  History First(int64_t n) const;
  Tokens tokens() const;
};

class SamplerRig {
 public:
  explicit SamplerRig(const SamplerSubject& subject, int64_t vocab_size = kVocabSize);

  static constexpr DrawKey kKey = {.seed = 7, .request = 2, .step = 11, .stream = 5};

  // Different from one another; several tokens can be drawn in each.
  const std::vector<TokenLogits>& inputs() const { return inputs_; }
  // Those whose logits are all finite and differ; the first ones of inputs().
  std::span<const TokenLogits> distinct() const { return {inputs_.data(), 8}; }

  // The stage; null when it cannot be made, which is noted.
  std::unique_ptr<SamplerStage> Make();
  std::unique_ptr<SamplerStage> MakeOpened(const Tokens& prompt);
  // A new stage whose slot 0 is where `history` leads.
  std::unique_ptr<SamplerStage> MakeAfter(const History& history);

  // Each call notes a refusal or an exception.
  void Open(SamplerStage& stage, int slot, const Tokens& prompt);
  // False when the sequence ends with the token.
  bool Accept(SamplerStage& stage, int slot, int32_t token);
  void Fork(SamplerStage& stage, int from, int to);
  void Truncate(SamplerStage& stage, int slot, int64_t n_tokens);
  void Close(SamplerStage& stage, int slot);
  // `n` tokens more, or fewer if the sequence ends. `salt` makes other tokens of it.
  void Grow(SamplerStage& stage, int slot, int n, int salt, History* history);

  // Applies, and notes what no stage may leave.
  absl::StatusOr<TokenLogits> Apply(SamplerStage& stage, int slot, const TokenLogits& logits,
                                    Arrangement arrangement = Arrangement::kDense,
                                    const DrawKey& key = kKey);
  // Notes `finding` unless a slot does what a new stage does after `history`.
  void ExpectState(SamplerStage& stage, int slot, const History& history, const char* finding);

  void Note(std::string finding) { findings_.push_back(std::move(finding)); }
  bool noted() const { return !findings_.empty(); }
  // The first finding decides.
  Outcome outcome() const { return noted() ? Fail(findings_.front()) : Ok(); }

 private:
  // The status of a call into the stage; one that throws is noted.
  template <typename Call>
  absl::Status Caught(Call&& call);
  CandidateSet Arrange(std::vector<Candidate>& storage, const TokenLogits& logits,
                       Arrangement arrangement);
  void CheckSurvivors(const CandidateSet& left, const std::vector<Candidate>& before);

  const SamplerSubject& subject_;
  const int64_t vocab_size_;
  std::vector<std::string> bytes_;             // [vocab_size]
  std::vector<std::string_view> token_bytes_;  // [vocab_size], into bytes_
  std::vector<uint8_t> special_;               // [vocab_size]
  CandidateStorage row_;
  std::vector<TokenLogits> inputs_;
  std::vector<std::string> findings_;
};

// A prompt: `n` tokens of the vocabulary.
Tokens SomeTokens(int n, int first);

// The same tokens with the same logits, or no result at all.
bool Same(const absl::StatusOr<TokenLogits>& a, const absl::StatusOr<TokenLogits>& b);

}  // namespace ng::conform

#endif  // NG_CORE_CONFORM_SAMPLER_RIG_H_
