// Closes a model's thoughts after so many tokens: what ends them is forced, token by token, and the
// answer goes on behind it.
//
// Marks are found as the reader of answers finds them: a token that the marks name counts as a
// whole, and its text in other tokens is text. A prompt may have begun the thoughts already. Where
// a mark begins with text, and not with a token, it begins thoughts only at the end of a prompt or
// at the beginning of an answer: so nobody forges it in what is said before.
//
// It stands first in the chain: what it forces must still be there.
#ifndef NG_PLUGINS_SAMPLER_THOUGHTS_THOUGHTS_H_
#define NG_PLUGINS_SAMPLER_THOUGHTS_THOUGHTS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/history_stage.h"
#include "ng/plugin.h"
#include "ng/sampler.h"
#include "plugins/sampler/thoughts/mark.h"

namespace ng {

// What begins thoughts, and so many marks but one that end them.
inline constexpr size_t kMostThoughtMarks = 7;

// What is remembered behind each token.
struct ThoughtState {
  enum class Phase : uint8_t {
    kBegins,  // of the answer there are blanks at most, or the beginning of a mark
    kAnswer,
    kThinks,
  };
  std::array<uint8_t, kMostThoughtMarks> at = {};  // how much of each mark is there
  Phase phase = Phase::kBegins;
  int32_t used = 0;  // tokens of thoughts
};

class Thoughts final : public HistoryStage<ThoughtState> {
 public:
  // `budget`: the most tokens of thoughts in an answer. `marks`: an object of JSON, or nothing:
  // then the stage does nothing. A mark is a list of texts and of numbers of tokens.
  //
  //   "begin"  the mark that begins thoughts
  //   "ends"   marks that end them; the first is what is forced
  //   "close"  the tokens of that one
  //
  // Errors: UsageError naming what of them is wrong.
  static absl::StatusOr<std::unique_ptr<SamplerStage>> Create(int64_t budget,
                                                              std::string_view marks,
                                                              const PluginContext& context);

  absl::Status Open(int slot, std::span<const int32_t> prompt_ids) override;
  absl::StatusOr<SequenceEnd> Accept(int slot, int32_t token) override;
  // Errors: also NumericError where the token that must come is none of the candidates.
  absl::Status Apply(int slot, const DrawKey& key, CandidateSet& candidates) override;
  // That there is nothing to do, where that is so.
  std::string Report() const override;

 private:
  Thoughts(int64_t budget, const PluginContext& context);
  absl::Status ReadMarks(std::string_view marks);
  // Finds out how much of the mark is there before each of the tokens that close.
  absl::Status MeasureClose();
  // Calls `read` with each byte of a token, or with the token itself.
  template <class Read>
  void ForEachSymbol(int32_t token, const Read& read) const;
  void Step(char32_t symbol, ThoughtState* state) const;
  void StepInPrompt(char32_t symbol, ThoughtState* state) const;

  const int64_t budget_;
  const int64_t vocab_size_;
  const std::vector<std::string_view> token_bytes_;  // [vocab_size], or none
  std::vector<Mark> marks_;                          // what begins, then what ends; empty: none
  std::vector<int32_t> named_;                       // tokens, rising
  std::vector<int32_t> close_;
  std::vector<uint8_t> before_;  // [close_]
};

}  // namespace ng

#endif  // NG_PLUGINS_SAMPLER_THOUGHTS_THOUGHTS_H_
