#include "core/text/pipeline/pre_tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_replace.h"
#include "core/base/absl_view.h"
#include "core/text/bpe/byte_alphabet.h"

namespace ng {
namespace {

using Take = absl::FunctionRef<bool(std::string_view)>;

// Puts matches and the stretches between them together to pieces.
class Joiner {
 public:
  Joiner(std::string_view text, SplitBehavior behavior, Take take)
      : text_(text), behavior_(behavior), take_(take) {}

  // The next stretch of the text. Returns false once no piece is wanted any more.
  bool Add(size_t begin, size_t end, bool is_match) {
    if (behavior_ == SplitBehavior::kRemoved && is_match) return true;
    const bool joins = has_held_ && JoinsHeld(is_match);
    if (joins) {
      end_ = end;
    } else {
      if (!Flush()) return false;
      begin_ = begin;
      end_ = end;
      has_held_ = true;
    }
    held_is_match_ = is_match;
    return true;
  }

  bool Flush() {
    const std::string_view piece = text_.substr(begin_, end_ - begin_);
    if (piece.empty() || !has_held_) return true;
    has_held_ = false;
    return take_(piece);
  }

 private:
  bool JoinsHeld(bool is_match) const {
    switch (behavior_) {
      case SplitBehavior::kIsolated:
      case SplitBehavior::kRemoved:
        return false;
      case SplitBehavior::kMergedWithPrevious:
        return is_match && !held_is_match_;
      case SplitBehavior::kMergedWithNext:
        return !is_match && held_is_match_;
      case SplitBehavior::kContiguous:
        return is_match == held_is_match_;
    }
    return false;
  }

  std::string_view text_;
  SplitBehavior behavior_;
  Take take_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool has_held_ = false;
  bool held_is_match_ = false;
};

class Walk {
 public:
  explicit Walk(StepBudget& budget) : budget_(budget) {}

  const absl::Status& status() const { return status_; }

  // Returns false once no piece is wanted any more, or after an error.
  bool Pieces(std::string_view text, bool begins, std::span<const PreTokenizerStep> steps,
              Take take) {
    if (text.empty()) return true;
    if (steps.empty()) return take(text);
    const auto rest = steps.subspan(1);
    return std::visit([&](const auto& step) { return Apply(step, text, begins, rest, take); },
                      steps.front());
  }

 private:
  bool Apply(SplitPattern pattern, std::string_view text, bool begins,
             std::span<const PreTokenizerStep> rest, Take take) {
    const FirstPiece first_piece = FirstPieceOf(pattern);
    bool first = begins;
    const auto part = [&](std::string_view piece) {
      return Pieces(piece, std::exchange(first, false), rest, take);
    };
    while (!text.empty()) {
      const size_t length = first_piece(text);
      if (!ForEachPart(pattern, text.substr(0, length), part)) return false;
      text.remove_prefix(length);
    }
    return true;
  }

  bool Apply(const SplitAt& split, std::string_view text, bool begins,
             std::span<const PreTokenizerStep> rest, Take take) {
    const char* const begin = text.data();
    const auto piece = [&](std::string_view part) {
      return Pieces(part, begins && part.data() == begin, rest, take);
    };
    Joiner joiner(text, split.behavior, piece);
    size_t done = 0;
    bool wanted = true;
    const absl::Status status = ForEachMatch(split.finder, text, budget_, [&](Regex::Match match) {
      if (done < match.begin) wanted = joiner.Add(done, match.begin, split.invert);
      wanted = wanted && joiner.Add(match.begin, match.end, !split.invert);
      done = match.end;
      return wanted;
    });
    if (!status.ok()) status_ = status;
    if (!wanted || !status.ok()) return false;
    if (done < text.size() && !joiner.Add(done, text.size(), split.invert)) return false;
    return joiner.Flush();
  }

  bool Apply(const ShowSpaces& step, std::string_view text, bool begins,
             std::span<const PreTokenizerStep> rest, Take take) {
    const bool wanted = step.prepend == ShowSpaces::Prepend::kAlways ||
                        (step.prepend == ShowSpaces::Prepend::kFirst && begins);
    const bool has_one = text.starts_with(' ') || text.starts_with(step.space);
    std::string shown = wanted && !has_one ? step.space : "";
    const auto n_spaces = static_cast<size_t>(std::ranges::count(text, ' '));
    if (!MayGrow(text.size(), shown.size() + text.size() + n_spaces * (step.space.size() - 1))) {
      return false;
    }
    shown += absl::StrReplaceAll(View(text), {{" ", step.space}});
    return Pieces(shown, begins, rest, take);
  }

  bool Apply(PrefixSpace, std::string_view text, bool begins,
             std::span<const PreTokenizerStep> rest, Take take) {
    if (text.starts_with(' ')) return Pieces(text, begins, rest, take);
    if (!MayGrow(text.size(), text.size() + 1)) return false;
    return Pieces(std::string(" ").append(text), begins, rest, take);
  }

  bool Apply(ToByteAlphabet, std::string_view text, bool begins,
             std::span<const PreTokenizerStep> rest, Take take) {
    if (rest.empty()) return take(text);
    return Pieces(ByteLevelText(text), begins, rest, [&](std::string_view piece) {
      return take(ByteLevelBytes(piece).value_or(std::string(piece)));
    });
  }

  bool MayGrow(size_t from, size_t to) {
    if (budget_.Grow(from, to)) return true;
    status_ = UsageError("the tokenizer's pre_tokenizer makes too much of the text");
    return false;
  }

  StepBudget& budget_;
  absl::Status status_;
};

}  // namespace

absl::Status SplitText(std::string_view text, bool begins, std::span<const PreTokenizerStep> steps,
                       StepBudget& budget, absl::FunctionRef<bool(std::string_view)> take) {
  Walk walk(budget);
  walk.Pieces(text, begins, steps, take);
  return walk.status();
}

}  // namespace ng
