#include "apps/eval/tasks/fit.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"

namespace ng::eval {
namespace {

// Tokens that a model may say before and behind the answer itself.
constexpr int64_t kBesideAnswer = 4;

// Measures contexts of a puzzle.
class Fitter {
 public:
  Fitter(const Puzzle& puzzle, int64_t most, const EncodeText& encode)
      : puzzle_(puzzle), most_(most), encode_(encode) {}

  std::string TextOf(const ContextSize& size) const {
    return ContextOf(puzzle_, size) + puzzle_.question;
  }

  absl::StatusOr<int64_t> TokensOf(const ContextSize& size) const {
    NG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, encode_(TextOf(size)));
    return static_cast<int64_t>(ids.size());
  }

  // The largest value of `field` with which the context fits; `size` has the smallest one, which
  // does.
  absl::Status Grow(int64_t ContextSize::*field, ContextSize* size) const {
    const int64_t least = size->*field;
    const auto fits = [&](int64_t value) -> absl::StatusOr<bool> {
      ContextSize tried = *size;
      tried.*field = value;
      NG_ASSIGN_OR_RETURN(const int64_t n, TokensOf(tried));
      return n <= most_;
    };
    int64_t low = least;  // fits
    int64_t step = 1;
    int64_t high = 0;  // does not
    while (high == 0) {
      NG_ASSIGN_OR_RETURN(const bool more, fits(low + step));
      if (!more) {
        high = low + step;
      } else {
        low += step;
        step *= 2;
      }
    }
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      NG_ASSIGN_OR_RETURN(const bool more, fits(middle));
      (more ? low : high) = middle;
    }
    size->*field = low;
    return absl::OkStatus();
  }

  // Fills the rest with padding, which may take the place of the last sentence.
  absl::Status Pad(ContextSize* size) const {
    for (int64_t dropped = 0; dropped <= std::min<int64_t>(1, size->sentences); ++dropped) {
      ContextSize padded = {size->sentences - dropped, 0};
      NG_ASSIGN_OR_RETURN(const int64_t n, TokensOf(padded));
      if (n > most_) continue;
      NG_RETURN_IF_ERROR(Grow(&ContextSize::padding, &padded));
      *size = padded;
      break;
    }
    return absl::OkStatus();
  }

 private:
  const Puzzle& puzzle_;
  const int64_t most_;
  const EncodeText& encode_;
};

}  // namespace

int64_t CommonPrefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

absl::StatusOr<Prompt> FitPuzzle(const Puzzle& puzzle, int64_t length, const EncodeText& encode) {
  Prompt prompt;
  // The tokens that the longest candidate has, at any place.
  NG_ASSIGN_OR_RETURN(const std::vector<int32_t> question, encode(puzzle.question));
  for (const std::string& candidate : puzzle.candidates) {
    NG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, encode(puzzle.question + candidate));
    prompt.n_answer = std::max(prompt.n_answer, std::ssize(ids) - std::ssize(question));
  }
  prompt.n_answer += kBesideAnswer;
  const Fitter fitter(puzzle, length - prompt.n_answer, encode);
  ContextSize size;
  NG_ASSIGN_OR_RETURN(const int64_t least, fitter.TokensOf(size));
  if (least + prompt.n_answer > length) {
    return LimitError(absl::StrCat("a length of ", length, " tokens: the task ", puzzle.task,
                                   " needs at least ", least + prompt.n_answer));
  }
  NG_RETURN_IF_ERROR(fitter.Grow(&ContextSize::sentences, &size));
  NG_RETURN_IF_ERROR(fitter.Pad(&size));
  prompt.text = fitter.TextOf(size);
  NG_ASSIGN_OR_RETURN(prompt.ids, encode(prompt.text));
  NG_ASSIGN_OR_RETURN(const std::vector<int32_t> context, encode(ContextOf(puzzle, size)));
  prompt.n_context = CommonPrefix(context, prompt.ids);
  for (const std::string& candidate : puzzle.candidates) {
    NG_ASSIGN_OR_RETURN(prompt.candidates.emplace_back(), encode(prompt.text + candidate));
  }
  return prompt;
}

absl::StatusOr<Prompt> QuestionAlone(const Puzzle& puzzle, const Prompt& whole,
                                     const EncodeText& encode) {
  Prompt prompt;
  prompt.text = puzzle.question;
  prompt.n_answer = whole.n_answer;
  NG_ASSIGN_OR_RETURN(prompt.ids, encode(prompt.text));
  for (const std::string& candidate : puzzle.candidates) {
    NG_ASSIGN_OR_RETURN(prompt.candidates.emplace_back(), encode(prompt.text + candidate));
  }
  return prompt;
}

}  // namespace ng::eval
