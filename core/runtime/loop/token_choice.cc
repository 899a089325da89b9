// GenerateLoop: what is made of a step's logits.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/finite.h"
#include "core/base/hash.h"
#include "core/runtime/loop/caught.h"
#include "core/runtime/loop/generate_loop.h"

namespace ng {
namespace {

// Of a sequence behind its last token. kMaxNewTokens: nothing ends it but their number.
StopReason ReasonToStop(std::span<const int32_t> stop_ids, int32_t token, SequenceEnd end) {
  if (std::ranges::count(stop_ids, token) != 0) return StopReason::kEot;
  switch (end) {
    case SequenceEnd::kStage:
      return StopReason::kStage;
    case SequenceEnd::kStopText:
      return StopReason::kStopText;
    case SequenceEnd::kNo:
      break;
  }
  return StopReason::kMaxNewTokens;
}

}  // namespace

absl::Status GenerateLoop::ReadStep() {
  const TensorView<const float, 2> logits = model_.logits();
  const int64_t vocab_size = logits.extent[1];
  const float* rows = logits.data;
  done_.clear();
  for (size_t i = 0; i < active_.size(); ++i) {
    if (options_.on_left) NG_RETURN_IF_ERROR(TellLeft(*active_[i]));
    const int64_t n_rows = step_sequences_[i].n_logit_rows;
    NG_ASSIGN_OR_RETURN(const bool ended,
                        ReadRows(*active_[i], fed_[i], {rows, {n_rows, vocab_size}}));
    if (active_[i]->marked) NG_RETURN_IF_ERROR(MakeCheckpoints(*active_[i]));
    if (ended) done_.push_back(i);
    rows += n_rows * vocab_size;
  }
  ShareTime();
  for (size_t i = done_.size(); i-- > 0;) {
    NG_RETURN_IF_ERROR(Retire(done_[i], active_[done_[i]]->stop_reason));
  }
  return absl::OkStatus();
}

absl::Status GenerateLoop::TellLeft(ActiveRequest& active) {
  const int64_t gone = model_.Gone(active.sequence);
  if (std::exchange(active.n_gone, gone) >= gone) return absl::OkStatus();
  return options_.on_left(active.index(), model_.Held(active.sequence));
}

absl::StatusOr<bool> GenerateLoop::ReadRows(ActiveRequest& active, const FedTokens& fed,
                                            const TensorView<const float, 2>& rows) {
  Completion& completion = active.completion();
  recorder_.Keep(fed, rows, &completion, &active.kept);
  if (active.kept.scoring) {
    NG_RETURN_IF_ERROR(OwnError(active, Caught([&] { return ScorePrompt(active, fed, rows); })));
  }
  if (!fed.newest || active.failed()) return active.failed();  // more of the prompt to come
  if (!active.prefill_done) NG_RETURN_IF_ERROR(OwnError(active, EndPrefill(active)));
  if (active.may_draft) {
    NG_RETURN_IF_ERROR(TakeDrafted(active, fed, rows));
  } else if (!active.last_row_pass && !active.finished()) {
    active.kept.missed = recorder_.MissedOf(fed, fed.end - fed.begin - 1);
    NG_RETURN_IF_ERROR(TakeToken(active, rows.Row(rows.extent[0] - 1), kNoDraft));
  }
  const int64_t capacity = model_.Capacity(active.sequence);
  const bool wants_newest = recorder_.WantsNewest(completion, active.kept, capacity);
  const bool finished = active.finished();
  if (active.failed() || (finished && (active.last_row_pass || !wants_newest))) return true;
  active.last_row_pass = finished;
  // Uncached, or with every position changed by a first id that has to go: nothing is kept, and
  // all ids are fed again. (The pass for the last id's rows reads what is already there.)
  const bool full = active.n_ids() - active.first > active.room;
  if (full) active.first = active.n_ids() - active.room;
  if (full || !settings_.use_cache) NG_RETURN_IF_ERROR(model_.Truncate(active.sequence, 0));
  return false;
}

absl::Status GenerateLoop::EndPrefill(ActiveRequest& active) {
  active.prefill_done = true;
  Timings& timings = active.completion().timings;
  timings.prefill_s = SecondsBetween(active.admitted, GenerateClock::now());
  timings.shared_tokens = active.n_shared;
  timings.loaded_tokens = active.n_loaded;
  timings.prefill_tokens =
      std::min(active.completion().prompt_len, active.room) - active.n_shared - active.n_loaded;
  const std::string& path = active.request().save_cache;
  const GenerateClock::time_point end = GenerateClock::now();
  if (!path.empty()) {
    NG_RETURN_IF_ERROR(snapshots_->Save(active.sequence, active.held_ids(), path));
  }
  active.prefilled = GenerateClock::now();
  step_begin_ += active.prefilled - end;
  if (options_.on_prompt) options_.on_prompt(active.index(), active.completion());
  return absl::OkStatus();
}

absl::Status GenerateLoop::ScorePrompt(ActiveRequest& active, const FedTokens& fed,
                                       const TensorView<const float, 2>& rows) {
  Completion& completion = active.completion();
  const auto vocab_size = static_cast<size_t>(rows.extent[1]);
  const int64_t end = std::min(fed.end, completion.prompt_len - 1);
  for (int64_t pos = fed.begin; pos < end; ++pos) {
    const std::span<const float> row(rows.Row(pos - fed.begin), vocab_size);
    if (!AllFinite(row)) return NotFinite(active);
    const int32_t next = completion.ids[static_cast<size_t>(pos + 1)];
    completion.prompt_logprobs.push_back(
        ComputeLogprob(row, next, active.request().prompt_top_logprobs));
  }
  active.kept.scoring = fed.end < completion.prompt_len;
  return absl::OkStatus();
}

absl::Status GenerateLoop::TakeToken(ActiveRequest& active, const float* row, int32_t proposed) {
  const std::span<const float> logits(row, static_cast<size_t>(model_.shape().vocab_size));
  const int64_t step = active.n_answered + active.n_generated();
  if (options_.next_token) return TakeGiven(active, step);
  StepRecord record;
  record.step = step;
  NG_RETURN_IF_ERROR(OwnError(active, Caught([&] { return Choose(active, logits, record); })));
  if (active.failed()) return absl::OkStatus();
  if (probes_ != nullptr) NG_RETURN_IF_ERROR(probes_->Accept(active.index(), record.token_id));
  if (speculation_ != nullptr) {
    record.drafted = record.token_id == proposed;
    NG_RETURN_IF_ERROR(speculation_->Accept(active.slot, record.token_id));
  }
  return options_.on_step ? TellStep(active, logits, record) : absl::OkStatus();
}

absl::Status GenerateLoop::Choose(ActiveRequest& active, std::span<const float> logits,
                                  StepRecord& record) {
  if (!AllFinite(logits)) return NotFinite(active);
  const int64_t draw = active.request().draw;
  const DrawKey key = {.seed = active.sampler.seed,
                       .request = draw < 0 ? active.index() : draw,
                       .step = record.step};
  SamplerChain& chain = *active.sampler.chain;
  NG_ASSIGN_OR_RETURN(record.token_id, chain.Choose(active.slot, logits, key,
                                                    options_.stages ? &record.stages : nullptr));
  recorder_.KeepChoice(logits, &active.completion());
  active.Append(record.token_id);
  NG_ASSIGN_OR_RETURN(const SequenceEnd end, chain.Accept(active.slot, record.token_id));
  NG_ASSIGN_OR_RETURN(record.held_bytes, chain.HeldBytes(active.slot));
  active.stop_reason = ReasonToStop(settings_.stop_ids, record.token_id, end);
  if (active.stop_reason == StopReason::kStopText) {
    active.completion().held_bytes = record.held_bytes;
  }
  return absl::OkStatus();
}

absl::Status GenerateLoop::TellStep(ActiveRequest& active, std::span<const float> logits,
                                    StepRecord& record) {
  if (options_.steps || active.request().steps) {
    StepStats stats = ComputeStepStats(logits, record.token_id, kRecordedTop);
    record.logprob = stats.logprob;
    record.entropy = stats.entropy;
    record.top_k = std::move(stats.top);
  }
  if (active.request().top_logprobs >= 0) {
    TokenLogprob scored = ComputeLogprob(logits, record.token_id, active.request().top_logprobs);
    record.logprob = scored.logprob;
    record.top_logprobs = std::move(scored.top);
  }
  if (options_.logits_hash) record.logits_hash = HashOf(std::as_bytes(logits));
  record.attn_rows = std::move(active.kept.last_rows);
  record.missed = active.kept.missed;
  return options_.on_step(active.index(), record);
}

absl::Status GenerateLoop::TakeGiven(ActiveRequest& active, int64_t step) {
  NG_ASSIGN_OR_RETURN(const GivenToken given, options_.next_token(active.index(), step));
  NG_RETURN_IF_ERROR(CheckIds(model_.shape(), {&given.token, 1}));
  active.Append(given.token);
  if (given.last) active.max_new_tokens = active.n_generated();
  return absl::OkStatus();
}

absl::Status GenerateLoop::NotFinite(ActiveRequest& active) {
  const std::string message = absl::StrCat("request ", active.index(), ", step ",
                                           active.n_generated(), ": the logits are not finite");
  // Another step would overwrite what the others have not read yet.
  if (options_.on_failed) return NumericError(message);
  // The same ids once more, in one piece and with a look at every layer; where the cache has
  // boundaries, in pieces up to them.
  NonFiniteFinder finder;
  StepSequence again{active.sequence, 0, active.held_ids(), 1, active.index(), active.adapters};
  StepBatch batch;
  batch.sequences = {&again, 1};
  ObserverList observers;
  if (probes_ != nullptr && probes_->edits()) observers.Add(probes_);
  observers.Add(&finder);
  batch.observer = &observers;
  NG_RETURN_IF_ERROR(model_.Truncate(active.sequence, 0));
  const std::span<const int32_t> ids = active.held_ids();
  absl::Status traced;
  for (size_t at = 0; at < ids.size() && traced.ok() && finder.first_layer() < 0;) {
    const auto begin = static_cast<int64_t>(at);
    const auto n = static_cast<size_t>(
        std::min(std::ssize(ids) - begin, model_.ToBoundary(active.sequence, begin)));
    again.start_pos = begin;
    again.tokens = ids.subspan(at, n);
    traced = model_.Forward(batch);
    at += n;
  }
  if (!traced.ok()) return NumericError(absl::StrCat(message, "; once more: ", traced.message()));
  if (finder.first_layer() >= 0) {
    return NumericError(absl::StrCat(
        message, "; the first layer to put out NaN or infinity is layer ", finder.first_layer()));
  }
  if (!AllFinite({model_.logits().Row(0), static_cast<size_t>(model_.logits().extent[1])})) {
    return NumericError(message + "; every layer's output is finite, the head's is not");
  }
  return NumericError(absl::StrCat(message,
                                   "; computed once more in one piece they are finite, so ",
                                   settings_.cache_and_attention,
                                   " gives bits that depend on how the ids are split into steps"));
}

}  // namespace ng
