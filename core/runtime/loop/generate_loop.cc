#include "core/runtime/loop/generate_loop.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>
#include <utility>

#include "core/runtime/loop/caught.h"

namespace ng {

GenerateLoop::GenerateLoop(const GenerateParts& parts, const GenerateSettings& settings,
                           const GenerateOptions& options)
    : model_(parts.model),
      samplers_(parts.samplers),
      snapshots_(parts.snapshots),
      probes_(parts.probes == nullptr || parts.probes->empty() ? nullptr : parts.probes),
      speculation_(parts.speculation),
      checkpoints_(parts.checkpoints),
      settings_(settings),
      options_(options),
      recorder_(model_, options),
      pace_(settings.most_beside_s) {
  if (speculation_ != nullptr) {
    const std::string_view off = WhyNoDrafts();
    speculation_->SetOff(off);
    if (!off.empty()) speculation_ = nullptr;
  }
  for (int slot = settings_.max_sequences; slot-- > 0;) free_slots_.push_back(slot);
  AttachObservers();
}

// What an exception has left open.
GenerateLoop::~GenerateLoop() {
  for (const std::unique_ptr<ActiveRequest>& active : active_) {
    if (active->owns_sequence) model_.CloseSequence(active->sequence);
  }
}

void GenerateLoop::AttachObservers() {
  // First: what the others see is what the step goes on with.
  if (probes_ != nullptr) observers_.Add(probes_);
  if (options_.on_cache_debug) {
    cache_debug_ = std::make_unique<CacheDebugObserver>(model_.shape(), options_.cache_debug_layer,
                                                        options_.on_cache_debug);
    observers_.Add(cache_debug_.get());
  }
  if (settings_.progress) {
    progress_ = std::make_unique<PrefillProgressObserver>(model_.shape(), settings_.progress);
    observers_.Add(progress_.get());
  }
  if (!options_.capture_points.empty()) {
    points_ = std::make_unique<PointRecorder>(model_.shape().n_layers, options_.capture_points);
    observers_.Add(points_.get());
  }
  if (options_.on_point) {
    watch_ = std::make_unique<PointWatch>(PointsByLayer(model_.shape().n_layers, options_.look_at),
                                          options_.on_point);
    observers_.Add(watch_.get());
  }
}

bool GenerateLoop::StopRequested() const {
  return settings_.stop != nullptr && settings_.stop->load(std::memory_order_relaxed);
}

bool GenerateLoop::KeepsPrompt() const {
  return recorder_.keeps_prompt() || (probes_ != nullptr && probes_->every_token());
}

void GenerateLoop::Add(const AddedRequest& added) { waiting_.push_back(added); }

int64_t GenerateLoop::n_waiting_chains() const {
  std::set<const SamplerChain*> chains;
  for (const AddedRequest& added : waiting_) chains.insert(added.sampler.chain.get());
  chains.erase(nullptr);
  return std::ssize(chains);
}

absl::Status GenerateLoop::Cancel(int index) {
  for (size_t i = 0; i < active_.size(); ++i) {
    if (active_[i]->index() == index) return Retire(i, StopReason::kInterrupted);
  }
  const auto waiting = std::ranges::find(waiting_, index, &AddedRequest::index);
  if (waiting == waiting_.end()) return absl::OkStatus();
  const AddedRequest added = *waiting;
  waiting_.erase(waiting);
  BeginCompletion(added);
  added.completion->stop_reason = StopReason::kInterrupted;
  return Report(added);
}

absl::StatusOr<bool> GenerateLoop::Advance() {
  if (idle()) return false;
  absl::Status status = Turn();
  if (status.ok() && !StopRequested()) return !idle();
  // An error that comes together with a signal is an error.
  const bool interrupted = status.ok() || absl::IsCancelled(status);
  if (interrupted) status = absl::OkStatus();
  status.Update(End(interrupted ? StopReason::kInterrupted : StopReason::kError));
  if (!status.ok()) return status;
  return false;
}

absl::Status GenerateLoop::End(StopReason reason) {
  absl::Status status;
  while (!active_.empty()) {
    const ActiveRequest& first = *active_.front();
    const StopReason ended = first.last_row_pass ? first.stop_reason : reason;
    status.Update(Caught([&] { return Retire(0, ended); }));
  }
  while (!waiting_.empty()) {
    const AddedRequest added = waiting_.front();
    waiting_.pop_front();
    BeginCompletion(added);
    added.completion->stop_reason = reason;
    status.Update(Report(added));
  }
  return status;
}

absl::Status GenerateLoop::Report(const AddedRequest& added) {
  if (!options_.on_done) return absl::OkStatus();
  return options_.on_done(added.index, *added.completion);
}

absl::Status GenerateLoop::OwnError(ActiveRequest& active, const absl::Status& error) {
  if (error.ok() || !options_.on_failed) return error;
  active.stop_reason = StopReason::kError;
  options_.on_failed(active.index(), error);
  return absl::OkStatus();
}

absl::Status GenerateLoop::Turn() {
  if (StopRequested()) return absl::OkStatus();
  return Caught([&]() -> absl::Status {
    NG_RETURN_IF_ERROR(Admit());
    return active_.empty() ? absl::OkStatus() : Step();
  });
}

GenerateLoop::StepRoom GenerateLoop::RoomOfStep() const {
  const bool decodes = std::ranges::any_of(
      active_, [](const std::unique_ptr<ActiveRequest>& active) { return active->prefill_done; });
  return {kScoredRows, decodes ? pace_.TokensBeside() : std::numeric_limits<int64_t>::max()};
}

FedTokens GenerateLoop::WhatToFeed(const ActiveRequest& active, int entry, StepRoom* room) const {
  const int64_t begin = model_.Length(active.sequence);
  const int64_t n_held = std::ssize(active.held_ids());
  if (active.may_draft) {
    const int64_t n_drafted = std::ssize(speculation_->DraftOf(active.slot));
    return {.index = active.index(),
            .entry = entry,
            .begin = begin,
            .end = n_held + n_drafted,
            .newest = true};
  }
  int64_t n_tokens = n_held - begin;
  if (settings_.prefill_chunk > 0) n_tokens = std::min(n_tokens, settings_.prefill_chunk);
  if (active.kept.scoring) n_tokens = std::min(n_tokens, std::max<int64_t>(1, room->scored_rows));
  if (!active.prefill_done) {
    n_tokens = std::min(n_tokens, std::max<int64_t>(1, room->prompt_tokens));
  }
  n_tokens =
      std::min({n_tokens, TokensToMark(active, begin), model_.ToBoundary(active.sequence, begin)});
  if (active.kept.scoring) room->scored_rows -= n_tokens;
  if (!active.prefill_done) room->prompt_tokens -= n_tokens;
  const int64_t end = begin + n_tokens;
  return {.index = active.index(),
          .entry = entry,
          .begin = begin,
          .end = end,
          .newest = end == n_held,
          .again = active.last_row_pass};
}

absl::Status GenerateLoop::Step() {
  step_begin_ = GenerateClock::now();
  fed_.clear();
  step_sequences_.clear();
  recorder_.BeginStep();
  if (speculation_ != nullptr) NG_RETURN_IF_ERROR(ProposeDrafts());
  StepRoom room = RoomOfStep();
  for (size_t i = 0; i < active_.size(); ++i) {
    ActiveRequest& active = *active_[i];
    Completion& completion = active.completion();
    active.share_s = active.last_row_pass  ? nullptr
                     : active.prefill_done ? &completion.timings.decode_share_s
                                           : &completion.timings.prefill_share_s;
    const FedTokens fed = WhatToFeed(active, static_cast<int>(i), &room);
    const auto n_tokens = static_cast<size_t>(fed.end - fed.begin);
    StepSequence sequence;
    sequence.sequence = active.sequence;
    sequence.start_pos = fed.begin;
    sequence.tokens = active.may_draft
                          ? speculation_->FedOf(active.slot, completion.ids.back())
                          : active.held_ids().subspan(static_cast<size_t>(fed.begin), n_tokens);
    sequence.n_logit_rows = recorder_.Want(fed, completion, active.kept);
    if (active.may_draft || (probes_ != nullptr && probes_->every_logit())) {
      sequence.n_logit_rows = fed.end - fed.begin;
    }
    sequence.request = active.index();
    sequence.adapters = active.adapters;
    step_sequences_.push_back(sequence);
    fed_.push_back(fed);
    if (points_ == nullptr) continue;
    points_->Add(active.sequence, &active.kept_points, &completion.captured.points);
  }

  StepBatch batch;
  batch.sequences = step_sequences_;
  batch.captures = recorder_.captures();
  batch.missed = recorder_.missed();
  batch.stop = settings_.stop;
  if (!observers_.empty()) batch.observer = &observers_;
  const GenerateClock::time_point fed = GenerateClock::now();
  const double read_s = model_.read_s();
  const absl::Status computed = Caught([&] { return model_.Forward(batch); });
  if (model_.read_s() > read_s) CountReading(model_.read_s() - read_s);
  if (points_ != nullptr) points_->EndStep(computed.ok());
  NG_RETURN_IF_ERROR(computed);
  if (speculation_ != nullptr) TimeDrafts(SecondsBetween(fed, GenerateClock::now()));
  const PromptPace::StepTokens tokens = TokensOfStep();
  NG_RETURN_IF_ERROR(ReadStep());
  pace_.Took(SecondsBetween(fed, GenerateClock::now()), tokens);
  return absl::OkStatus();
}

PromptPace::StepTokens GenerateLoop::TokensOfStep() const {
  PromptPace::StepTokens tokens;
  for (size_t i = 0; i < active_.size(); ++i) {
    const int64_t n_fed = std::ssize(step_sequences_[i].tokens);
    tokens.all += n_fed;
    if (!active_[i]->prefill_done) tokens.of_prompts += n_fed;
  }
  return tokens;
}

void GenerateLoop::CountReading(double seconds) {
  const auto spent =
      std::chrono::duration_cast<GenerateClock::duration>(std::chrono::duration<double>(seconds));
  step_begin_ += spent;
  for (const std::unique_ptr<ActiveRequest>& active : active_) {
    active->admitted += spent;
    active->completion().timings.load_s += seconds;
  }
}

void GenerateLoop::ShareTime() {
  size_t n_fed = 0;
  for (const StepSequence& fed : step_sequences_) n_fed += fed.tokens.size();
  const double per_token =
      SecondsBetween(step_begin_, GenerateClock::now()) / static_cast<double>(n_fed);
  for (size_t i = 0; i < active_.size(); ++i) {
    double* const share_s = active_[i]->share_s;
    const auto n_own = static_cast<double>(step_sequences_[i].tokens.size());
    if (share_s != nullptr) *share_s += n_own * per_token;
  }
}

absl::Status GenerateLoop::Retire(size_t active_index, StopReason reason) {
  const std::unique_ptr<ActiveRequest> active = std::move(active_[active_index]);
  active_.erase(active_.begin() + static_cast<int64_t>(active_index));
  cache_full_ = false;
  active->stop_reason = reason;
  absl::Status closed;
  // What an error has left of a draft.
  const int64_t kept = std::ssize(active->held_ids()) - 1;
  if (active->drafted_for && model_.Length(active->sequence) > kept) {
    closed.Update(model_.Truncate(active->sequence, kept));
  }
  if (active->owns_sequence) model_.CloseSequence(active->sequence);
  free_slots_.push_back(active->slot);
  if (active->drafted_for) closed.Update(speculation_->Close(active->slot));
  if (active->staged) {
    closed.Update(OwnError(*active, active->sampler.chain->Close(active->slot)));
  }
  if (active->probed) closed.Update(probes_->End(active->index()));
  active->completion().stop_reason = active->stop_reason;
  const absl::Status reported = Report(active->added);
  return closed.ok() ? reported : closed;
}

}  // namespace ng
