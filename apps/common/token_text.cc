#include "apps/common/token_text.h"

#include <algorithm>

namespace ng {
namespace {

// The bytes of one generated token; a stop id has none.
absl::StatusOr<std::string> TokenText(const Engine& engine, int32_t id) {
  if (IsStopId(engine, id)) return std::string();
  return engine.Decode({&id, 1});
}

// How much of a text there is to show when so many bytes at its end are held back.
size_t LengthToShow(const std::string& text, int64_t held_bytes) {
  return text.size() - std::min(text.size(), static_cast<size_t>(held_bytes));
}

}  // namespace

bool IsStopId(const Engine& engine, int32_t id) {
  return std::ranges::count(engine.stop_ids(), id) > 0;
}

absl::StatusOr<std::string> VisibleToken(const Engine& engine, int32_t id) {
  NG_ASSIGN_OR_RETURN(const std::string bytes, engine.Decode({&id, 1}));
  return VisibleText(bytes);
}

absl::StatusOr<std::string> CompletionText(const Engine& engine, const Completion& completion) {
  std::string text;
  for (size_t i = static_cast<size_t>(completion.prompt_len); i < completion.ids.size(); ++i) {
    const bool closing = i + 1 == completion.ids.size() && IsStopId(engine, completion.ids[i]);
    if (closing) continue;
    NG_ASSIGN_OR_RETURN(const std::string piece, engine.Decode({&completion.ids[i], 1}));
    text += piece;
  }
  text.resize(LengthToShow(text, completion.held_bytes));
  return ReplaceInvalidUtf8(text);
}

absl::StatusOr<std::string> AnswerStream::Push(const Engine& engine, const StepRecord& record) {
  NG_ASSIGN_OR_RETURN(const std::string text, TokenText(engine, record.token_id));
  return Push(text, record.held_bytes);
}

std::string AnswerStream::Push(std::string_view bytes, int64_t held_bytes) {
  held_ += bytes;
  const size_t n_shown = LengthToShow(held_, held_bytes);
  const std::string shown = held_.substr(0, n_shown);
  held_.erase(0, n_shown);
  n_given_ += n_shown;
  return utf8_.Push(shown);
}

std::string AnswerStream::Finish(int64_t held_bytes) {
  const std::string rest = Push("", held_bytes);
  held_.clear();
  return rest + utf8_.Finish();
}

}  // namespace ng
