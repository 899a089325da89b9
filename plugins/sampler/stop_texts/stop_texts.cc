#include "plugins/sampler/stop_texts/stop_texts.h"

#include <algorithm>

#include "absl/memory/memory.h"

namespace ng {

absl::StatusOr<std::unique_ptr<SamplerStage>> StopTexts::Create(
    std::span<const std::string_view> texts, const PluginContext& context) {
  if (!texts.empty() && context.token_bytes.empty()) {
    return UsageError(
        "sampler.stop_texts.texts: the model has no tokenizer, so its tokens have no text");
  }
  return absl::WrapUnique(new StopTexts(texts, context));
}

StopTexts::StopTexts(std::span<const std::string_view> texts, const PluginContext& context)
    : TokenHistoryStage(context.model),
      texts_(texts.begin(), texts.end()),
      token_bytes_(context.token_bytes.begin(), context.token_bytes.end()) {
  for (const int32_t id : context.stop_ids) {
    if (id < std::ssize(token_bytes_)) token_bytes_[static_cast<size_t>(id)] = {};
  }
  size_t longest_token = 0;
  for (const std::string_view bytes : token_bytes_) {
    longest_token = std::max(longest_token, bytes.size());
  }
  for (const std::string& text : texts_) longest_text_ = std::max(longest_text_, text.size());
  end_.reserve(longest_text_ + 2 * longest_token);
}

absl::Status StopTexts::Open(int slot, std::span<const int32_t> prompt_ids) {
  const auto index = static_cast<size_t>(slot);
  if (index >= slots_.size()) slots_.resize(index + 1);
  slots_[index] = {.prompt_len = std::ssize(prompt_ids)};
  return TokenHistoryStage::Open(slot, prompt_ids);
}

absl::StatusOr<SequenceEnd> StopTexts::Accept(int slot, int32_t token) {
  NG_RETURN_IF_ERROR(TokenHistoryStage::Accept(slot, token).status());
  Look(slot);
  return slots_[static_cast<size_t>(slot)].ended ? SequenceEnd::kStopText : SequenceEnd::kNo;
}

absl::Status StopTexts::Fork(int from, int to) {
  const auto index = static_cast<size_t>(to);
  if (index >= slots_.size()) slots_.resize(index + 1);
  slots_[index] = slots_[static_cast<size_t>(from)];
  return TokenHistoryStage::Fork(from, to);
}

absl::Status StopTexts::Truncate(int slot, int64_t n_tokens) {
  NG_RETURN_IF_ERROR(TokenHistoryStage::Truncate(slot, n_tokens));
  Look(slot);
  return absl::OkStatus();
}

// A text that ends in the last token begins no farther before that token than the longest text is
// long. One that ended earlier has ended the answer.
void StopTexts::Look(int slot) {
  Slot& state = slots_[static_cast<size_t>(slot)];
  state.held = 0;
  state.ended = false;
  const std::span<const int32_t> all = History(slot);
  const std::span<const int32_t> answer =
      all.last(static_cast<size_t>(std::max<int64_t>(0, std::ssize(all) - state.prompt_len)));
  if (texts_.empty() || answer.empty()) return;
  const size_t n_new = token_bytes_[static_cast<size_t>(answer.back())].size();
  size_t first = answer.size();
  size_t n_bytes = 0;
  while (first > 0 && n_bytes < longest_text_ + n_new) {
    n_bytes += token_bytes_[static_cast<size_t>(answer[--first])].size();
  }
  end_.clear();
  for (const int32_t id : answer.subspan(first)) end_ += token_bytes_[static_cast<size_t>(id)];

  size_t begin = end_.size();  // of the first text there is, or that may come
  const size_t n_old = end_.size() - n_new;
  for (const std::string& text : texts_) {
    const size_t from = n_old - std::min(n_old, text.size() - 1);
    const size_t found = end_.find(text, from);
    if (found >= begin && state.ended) continue;
    if (found != std::string::npos) {
      begin = found;
      state.ended = true;
    }
  }
  for (const std::string& text : texts_) {
    if (state.ended) break;
    for (size_t at = end_.size() - std::min(end_.size(), text.size() - 1); at < begin; ++at) {
      if (text.starts_with(std::string_view(end_).substr(at))) begin = at;
    }
  }
  state.held = static_cast<int64_t>(end_.size() - begin);
}

absl::Status StopTexts::Apply(int /*slot*/, const DrawKey& /*key*/, CandidateSet& candidates) {
  return candidates.MaxLogit().status();
}

}  // namespace ng
