#include "core/text/pipeline/finder.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "core/text/find.h"
#include "core/text/newer_characters.h"
#include "core/text/unicode.h"

namespace ng {
namespace {

using Found = absl::StatusOr<std::optional<Regex::Match>>;

Found FindFrom(const std::string& literal, std::string_view text, size_t from,
               StepBudget& /*budget*/) {
  const size_t at = FindFirst(text, literal, from);
  if (at == text.npos) return std::optional<Regex::Match>();
  return std::optional<Regex::Match>({at, at + literal.size()});
}

Found FindFrom(const Regex& pattern, std::string_view text, size_t from, StepBudget& budget) {
  return pattern.Find(text, from, budget.searching());
}

Found FindFrom(CharTest is_in, std::string_view text, size_t from, StepBudget& /*budget*/) {
  for (size_t at = from; at < text.size();) {
    const CodePoint next = FirstCodePoint(text.substr(at));
    if (is_in(next.value)) return std::optional<Regex::Match>({at, at + next.length});
    at += next.length;
  }
  return std::optional<Regex::Match>();
}

// Where a finder that searches for the next match is called again behind each.
template <typename Kind>
absl::Status ForEachFound(const Kind& kind, std::string_view text, StepBudget& budget,
                          absl::FunctionRef<bool(Regex::Match)> take) {
  std::optional<size_t> last_end;
  for (size_t from = 0; from <= text.size();) {
    NG_ASSIGN_OR_RETURN(const std::optional<Regex::Match> match,
                        FindFrom(kind, text, from, budget));
    if (!match) return absl::OkStatus();
    if (match->begin == match->end && match->end == last_end) {
      from += from < text.size() ? FirstCodePoint(text.substr(from)).length : 1;
      continue;
    }
    from = match->end;
    last_end = match->end;
    if (!take(*match)) return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status ForEachFound(DigitGroups kind, std::string_view text, StepBudget& /*budget*/,
                          absl::FunctionRef<bool(Regex::Match)> take) {
  ForEachGroup(kind, text, take);
  return absl::OkStatus();
}

absl::Status ForEachFound(SpacesOfLineEnds /*kind*/, std::string_view text, StepBudget& /*budget*/,
                          absl::FunctionRef<bool(Regex::Match)> take) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    size_t end = begin;  // the last line end in this run of spaces, or the end of the text
    CodePoint next = FirstCodePoint(text.substr(at));
    while (IsSpace(next.value)) {
      if (text[at] == '\n') end = at;
      at += next.length;
      if (at == text.size()) break;
      next = FirstCodePoint(text.substr(at));
    }
    if (at == begin) {
      at += next.length;
      continue;
    }
    if (at == text.size()) end = at;
    if (end > begin && !take({begin, end})) break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Finder> FinderOf(std::string_view regex) {
  if (const auto groups = DigitGroupsOf(regex)) return Finder(*groups);
  if (regex == R"(\s+$)") return Finder(SpacesOfLineEnds{});
  NG_ASSIGN_OR_RETURN(Regex compiled, Regex::Compile(regex));
  return Finder(std::move(compiled));
}

absl::Status ForEachMatch(const Finder& finder, std::string_view text, StepBudget& budget,
                          absl::FunctionRef<bool(Regex::Match)> take) {
  const std::optional<std::string> twins =
      std::holds_alternative<Regex>(finder) ? WithOlderTwins(text) : std::nullopt;
  if (twins) text = *twins;
  return std::visit([&](const auto& kind) { return ForEachFound(kind, text, budget, take); },
                    finder);
}

}  // namespace ng
