#include "plugins/sampler/thoughts/thoughts.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace ng {
namespace {

using Phase = ThoughtState::Phase;

bool IsBlank(char32_t symbol) {
  return symbol == ' ' || symbol == '\n' || symbol == '\t' || symbol == '\r';
}

absl::Status WrongMarks(std::string_view why) {
  return UsageError(absl::StrCat("sampler.thoughts.marks: ", std::string(why)));
}

std::string Shown(const nlohmann::json& value) {
  constexpr size_t kLongest = 80;
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, kLongest);
}

// Nothing where it is no list of texts and of numbers in [0, n_tokens).
std::optional<std::u32string> ReadMark(const nlohmann::json& list, int64_t n_tokens,
                                       std::vector<int32_t>* named) {
  std::u32string symbols;
  if (!list.is_array()) return std::nullopt;
  for (const nlohmann::json& piece : list) {
    if (piece.is_string()) {
      for (const char c : piece.get_ref<const std::string&>()) {
        symbols += static_cast<unsigned char>(c);
      }
      continue;
    }
    if (!piece.is_number_integer() || piece < 0 || piece >= n_tokens) return std::nullopt;
    named->push_back(piece.get<int32_t>());
    symbols += Mark::kFirstToken + static_cast<char32_t>(named->back());
  }
  if (symbols.empty() || symbols.size() > Mark::kLongest) return std::nullopt;
  return symbols;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SamplerStage>> Thoughts::Create(int64_t budget,
                                                               std::string_view marks,
                                                               const PluginContext& context) {
  auto stage = absl::WrapUnique(new Thoughts(budget, context));
  if (!marks.empty()) NG_RETURN_IF_ERROR(stage->ReadMarks(marks));
  return stage;
}

Thoughts::Thoughts(int64_t budget, const PluginContext& context)
    : HistoryStage(context.model),
      budget_(budget),
      vocab_size_(context.model.vocab_size),
      token_bytes_(context.token_bytes.begin(), context.token_bytes.end()) {}

absl::Status Thoughts::ReadMarks(std::string_view marks) {
  const auto json = nlohmann::json::parse(marks, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("begin") || !json.contains("ends") ||
      !json["ends"].is_array() || json["ends"].empty() || !json.contains("close") ||
      !json["close"].is_array() || json["close"].empty()) {
    return WrongMarks("must be an object with begin, ends and close");
  }
  std::vector<nlohmann::json> lists = {json["begin"]};
  lists.insert(lists.end(), json["ends"].begin(), json["ends"].end());
  if (lists.size() > kMostThoughtMarks) {
    return WrongMarks(
        absl::StrCat("has ", lists.size() - 1, " ends, must be at most ", kMostThoughtMarks - 1));
  }
  const int64_t n_tokens = vocab_size_;
  for (const nlohmann::json& list : lists) {
    std::optional<std::u32string> symbols = ReadMark(list, n_tokens, &named_);
    if (!symbols) {
      return WrongMarks(absl::StrCat("has the mark ", Shown(list),
                                     ", must be a list of texts and of tokens below ", n_tokens,
                                     ", of 1 to ", Mark::kLongest, " bytes and tokens"));
    }
    marks_.emplace_back(*std::move(symbols));
  }
  std::ranges::sort(named_);
  for (const nlohmann::json& id : json["close"]) {
    if (!id.is_number_integer() || id < 0 || id >= n_tokens) {
      return WrongMarks(
          absl::StrCat("has the token ", Shown(id), " in close, must be in [0, ", n_tokens, ")"));
    }
    close_.push_back(id.get<int32_t>());
  }
  return MeasureClose();
}

absl::Status Thoughts::MeasureClose() {
  const Mark& end = marks_[1];
  uint8_t at = 0;
  for (const int32_t token : close_) {
    if (end.IsWhole(at)) return WrongMarks("has more tokens in close than its first end");
    before_.push_back(at);
    ForEachSymbol(token, [&](char32_t symbol) { at = end.Next(at, symbol); });
  }
  return end.IsWhole(at) ? absl::OkStatus()
                         : WrongMarks("the tokens of close do not come to its first end");
}

template <class Read>
void Thoughts::ForEachSymbol(int32_t token, const Read& read) const {
  if (std::ranges::binary_search(named_, token)) {
    return read(Mark::kFirstToken + static_cast<char32_t>(token));
  }
  const auto index = static_cast<size_t>(token);
  if (index >= token_bytes_.size()) return;
  for (const char c : token_bytes_[index]) read(static_cast<unsigned char>(c));
}

void Thoughts::Step(char32_t symbol, ThoughtState* state) const {
  const auto begin = [&](Phase phase) {
    state->phase = phase;
    state->at = {};
  };
  if (state->phase == Phase::kThinks) {
    bool ends = false;
    for (size_t i = 1; i < marks_.size(); ++i) {
      state->at[i] = marks_[i].Next(state->at[i], symbol);
      ends = ends || marks_[i].IsWhole(state->at[i]);
    }
    if (ends) begin(Phase::kAnswer);
    return;
  }
  const Mark& mark = marks_.front();
  const bool by_token = mark.begins_with_token();
  if (state->phase == Phase::kAnswer && !by_token) return;
  const uint8_t before = state->at.front();
  state->at.front() = mark.Next(before, symbol);
  if (mark.IsWhole(state->at.front())) return begin(Phase::kThinks);
  const bool goes_on = state->at.front() == before + 1 || IsBlank(symbol);
  if (!by_token && !goes_on) begin(Phase::kAnswer);
}

void Thoughts::StepInPrompt(char32_t symbol, ThoughtState* state) const {
  const Mark& mark = marks_.front();
  if (state->phase == Phase::kThinks && (mark.begins_with_token() || IsBlank(symbol))) {
    Step(symbol, state);
    if (state->phase == Phase::kAnswer) state->phase = Phase::kBegins;
    return;
  }
  if (state->phase == Phase::kThinks) *state = {};
  state->at.front() = mark.Next(state->at.front(), symbol);
  if (mark.IsWhole(state->at.front())) *state = {.phase = Phase::kThinks};
}

absl::Status Thoughts::Open(int slot, std::span<const int32_t> prompt_ids) {
  Empty(slot, prompt_ids.size());
  // Behind each token what would be so if the prompt ended there.
  ThoughtState state;
  for (const int32_t token : prompt_ids) {
    if (!marks_.empty()) {
      ForEachSymbol(token, [&](char32_t symbol) { StepInPrompt(symbol, &state); });
    }
    Remember(slot, state);
  }
  return absl::OkStatus();
}

absl::StatusOr<SequenceEnd> Thoughts::Accept(int slot, int32_t token) {
  ThoughtState state = Last(slot);
  if (!marks_.empty()) {
    const bool counts = state.phase == Phase::kThinks;
    if (counts && state.used < std::numeric_limits<int32_t>::max()) ++state.used;
    ForEachSymbol(token, [&](char32_t symbol) { Step(symbol, &state); });
  }
  Remember(slot, state);
  return SequenceEnd::kNo;
}

absl::Status Thoughts::Apply(int slot, const DrawKey& /*key*/, CandidateSet& candidates) {
  NG_RETURN_IF_ERROR(candidates.MaxLogit().status());
  const ThoughtState& state = Last(slot);
  if (state.phase != Phase::kThinks || state.used < budget_) return absl::OkStatus();
  // Where the model has written a part of the mark itself, the rest of it.
  const auto place = std::ranges::find(before_, state.at[1]);
  const int32_t forced = place == before_.end() ? close_.front() : close_[place - before_.begin()];
  candidates.KeepIds({&forced, 1});
  return Annotate(candidates.MaxLogit().status(),
                  absl::StrCat("the token ", forced,
                               ", which closes thoughts, is no candidate (put thoughts first, and "
                               "ban nothing that it needs): "));
}

std::string Thoughts::Report() const {
  return marks_.empty() ? "the chat template has no marks of thoughts" : "";
}

}  // namespace ng
