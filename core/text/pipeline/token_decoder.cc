#include "core/text/pipeline/token_decoder.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/text/bpe/byte_alphabet.h"
#include "core/text/sentencepiece/sentencepiece_model.h"
#include "ng/utf8.h"

namespace ng {
namespace {

using Tokens = std::vector<std::string>;
using Result = absl::StatusOr<Tokens>;

constexpr std::string_view kReplacement = "\uFFFD";

std::string AlphabetBytes(const std::string& token) {
  return ByteLevelBytes(token).value_or(token);
}

// The step over all tokens.

Result Apply(const BytesOfAlphabet&, const Tokens& tokens, StepBudget& /*budget*/) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += AlphabetBytes(token);
  return Tokens{ReplaceInvalidUtf8(bytes)};
}

Result Apply(const BytesOfNames&, Tokens tokens, StepBudget& /*budget*/) {
  Tokens decoded;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (FindInvalidUtf8(bytes)) {
      for (size_t i = 0; i < bytes.size(); ++i) decoded.emplace_back(kReplacement);
    } else {
      decoded.push_back(bytes);
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const std::optional<char> byte = ByteOfPiece(token)) {
      bytes += *byte;
      continue;
    }
    flush();
    decoded.push_back(std::move(token));
  }
  flush();
  return decoded;
}

Result Apply(const Fuse&, const Tokens& tokens, StepBudget& /*budget*/) {
  return Tokens{absl::StrJoin(tokens, "")};
}

absl::StatusOr<std::string> Replaced(const ReplaceInToken& step, const std::string& token,
                                     StepBudget& budget) {
  std::string replaced;
  size_t done = 0;
  bool is_full = false;
  NG_RETURN_IF_ERROR(ForEachMatch(step.from, token, budget, [&](Regex::Match match) {
    is_full = !budget.Grow(match.end - match.begin, step.to.size());
    if (is_full) return false;
    replaced.append(token, done, match.begin - done);
    replaced += step.to;
    done = match.end;
    return true;
  }));
  if (is_full) return UsageError("makes too much of the tokens");
  return replaced.append(token, done);
}

Result Apply(const ReplaceInToken& step, Tokens tokens, StepBudget& budget) {
  for (std::string& token : tokens) {
    NG_ASSIGN_OR_RETURN(token, Replaced(step, token, budget));
  }
  return tokens;
}

std::string Stripped(const StripToken& step, std::string_view token) {
  for (int64_t i = 0; i < step.start && token.starts_with(step.character); ++i) {
    token.remove_prefix(step.character.size());
  }
  for (int64_t i = 0; i < step.stop && token.ends_with(step.character); ++i) {
    token.remove_suffix(step.character.size());
  }
  return std::string(token);
}

Result Apply(const StripToken& step, Tokens tokens, StepBudget& /*budget*/) {
  for (std::string& token : tokens) token = Stripped(step, token);
  return tokens;
}

Result Apply(const HideSpaces& step, Tokens tokens, StepBudget& /*budget*/) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const char* const space = i == 0 && step.drops_first ? "" : " ";
    absl::StrReplaceAll({{step.space, space}}, &tokens[i]);
  }
  return tokens;
}

Result Apply(const HideWordEnds& step, Tokens tokens, StepBudget& /*budget*/) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    absl::StrReplaceAll({{step.mark, i + 1 == tokens.size() ? "" : " "}}, &tokens[i]);
  }
  return tokens;
}

Result Apply(const SpacesBetween&, Tokens tokens, StepBudget& /*budget*/) {
  for (size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(size_t{0}, 1, ' ');
  return tokens;
}

// The step over one token that has others on both sides, without those that look at all of them.

absl::StatusOr<std::string> ApplyWithin(const BytesOfAlphabet&, const std::string& token,
                                        StepBudget& /*budget*/) {
  return AlphabetBytes(token);
}
absl::StatusOr<std::string> ApplyWithin(const BytesOfNames&, const std::string& token,
                                        StepBudget& /*budget*/) {
  const std::optional<char> byte = ByteOfPiece(token);
  return byte ? std::string(1, *byte) : token;
}
absl::StatusOr<std::string> ApplyWithin(const Fuse&, std::string token, StepBudget& /*budget*/) {
  return token;
}
absl::StatusOr<std::string> ApplyWithin(const ReplaceInToken& step, const std::string& token,
                                        StepBudget& budget) {
  return FindInvalidUtf8(token) ? absl::StatusOr<std::string>(token)
                                : Replaced(step, token, budget);
}
absl::StatusOr<std::string> ApplyWithin(const StripToken& step, const std::string& token,
                                        StepBudget& /*budget*/) {
  return Stripped(step, token);
}
absl::StatusOr<std::string> ApplyWithin(const HideSpaces& step, const std::string& token,
                                        StepBudget& /*budget*/) {
  return absl::StrReplaceAll(token, {{step.space, " "}});
}
absl::StatusOr<std::string> ApplyWithin(const HideWordEnds& step, const std::string& token,
                                        StepBudget& /*budget*/) {
  return absl::StrReplaceAll(token, {{step.mark, " "}});
}

absl::StatusOr<std::string> ApplyWithin(const SpacesBetween&, const std::string& token,
                                        StepBudget& /*budget*/) {
  return " " + token;
}

absl::Status AtStep(size_t i, const absl::Status& status) {
  return Annotate(status, absl::StrCat("step ", i + 1, " of the tokenizer's decoder: "));
}

}  // namespace

absl::StatusOr<std::string> DecodeTokens(const std::vector<DecoderStep>& steps, Tokens tokens,
                                         StepBudget& budget) {
  for (size_t i = 0; i < steps.size(); ++i) {
    Result done = std::visit(
        [&](const auto& kind) { return Apply(kind, std::move(tokens), budget); }, steps[i]);
    if (!done.ok()) return AtStep(i, done.status());
    tokens = *std::move(done);
  }
  return absl::StrJoin(tokens, "");
}

absl::StatusOr<std::string> BytesWithin(const std::vector<DecoderStep>& steps, std::string token,
                                        StepBudget& budget) {
  bool is_one_text = false;  // what follows sees the whole text, and this token only as its inside
  for (size_t i = 0; i < steps.size(); ++i) {
    const DecoderStep& step = steps[i];
    if (is_one_text && std::holds_alternative<StripToken>(step)) continue;
    is_one_text = is_one_text || std::holds_alternative<Fuse>(step) ||
                  std::holds_alternative<BytesOfAlphabet>(step);
    absl::StatusOr<std::string> done = std::visit(
        [&](const auto& kind) { return ApplyWithin(kind, std::move(token), budget); }, step);
    if (!done.ok()) return AtStep(i, done.status());
    token = *std::move(done);
  }
  return token;
}

}  // namespace ng
