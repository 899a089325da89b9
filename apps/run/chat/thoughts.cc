#include "apps/run/chat/thoughts.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ng::run {
namespace {

// What chat templates write around thoughts.
struct Markers {
  std::string_view begin;
  std::string_view end;
};
constexpr Markers kMarkers[] = {
    {"<think>", "</think>"},
    {"<thinking>", "</thinking>"},
    {"<thought>", "</thought>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|channel|>analysis<|message|>", "<|end|>"},
};
constexpr std::string_view kBlanks = " \t\r\n";

// The longest end of `text` that a marker may begin with.
size_t PartAtEnd(std::string_view text, std::string_view marker) {
  size_t size = std::min(text.size(), marker.size() - 1);
  while (size > 0 && !marker.starts_with(text.substr(text.size() - size))) --size;
  return size;
}

void Add(bool thought, std::string text, std::vector<Piece>* pieces) {
  if (!text.empty()) pieces->push_back({thought, std::move(text)});
}

}  // namespace

Thoughts::Thoughts(std::string_view prompt_end) {
  const size_t end = prompt_end.find_last_not_of(kBlanks);
  if (end == prompt_end.npos) return;
  const std::string_view prompt = prompt_end.substr(0, end + 1);
  const auto* const open = std::ranges::find_if(
      kMarkers, [&](const Markers& markers) { return prompt.ends_with(markers.begin); });
  if (open == std::end(kMarkers)) return;
  marker_ = static_cast<size_t>(open - std::begin(kMarkers));
  state_ = State::kWithin;
}

std::vector<Piece> Thoughts::Push(std::string_view text) {
  std::vector<Piece> pieces;
  held_ += text;
  if (state_ == State::kBeginning) {
    const size_t begin = held_.find_first_not_of(kBlanks);
    if (begin == held_.npos) return pieces;
    const std::string_view rest = std::string_view(held_).substr(begin);
    const auto begins = [&](const Markers& markers) { return rest.starts_with(markers.begin); };
    const auto may_begin = [&](const Markers& markers) { return markers.begin.starts_with(rest); };
    const auto* const open = std::ranges::find_if(kMarkers, begins);
    if (open != std::end(kMarkers)) {
      marker_ = static_cast<size_t>(open - std::begin(kMarkers));
      state_ = State::kWithin;
    } else if (std::ranges::any_of(kMarkers, may_begin)) {
      return pieces;
    } else {
      state_ = State::kBehind;
    }
  }
  if (state_ == State::kWithin) {
    const std::string_view marker = kMarkers[marker_].end;
    const size_t end = held_.find(marker);
    if (end == held_.npos) {
      const size_t n_known = held_.size() - PartAtEnd(held_, marker);
      Add(true, held_.substr(0, n_known), &pieces);
      held_.erase(0, n_known);
      return pieces;
    }
    Add(true, held_.substr(0, end + marker.size()), &pieces);
    held_.erase(0, end + marker.size());
    state_ = State::kBehind;
  }
  Add(false, std::exchange(held_, {}), &pieces);
  return pieces;
}

std::vector<Piece> Thoughts::Finish() {
  std::vector<Piece> pieces;
  Add(state_ == State::kWithin, std::exchange(held_, {}), &pieces);
  return pieces;
}

}  // namespace ng::run
