#include "core/runtime/generate.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/hash.h"
#include "core/runtime/caught.h"
#include "core/runtime/point_recorder.h"
#include "core/runtime/recorder.h"
#include "core/runtime/step_observers.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

bool HasSnapshot(const GenerateRequest& request) {
  return !request.load_cache.empty() || !request.save_cache.empty();
}

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

// A request between admission and retirement.
struct Active {
  int index = 0;  // of its request
  int slot = 0;   // in the sampler chain
  SequenceId sequence = 0;
  bool owns_sequence = true;
  Completion* completion = nullptr;
  int64_t max_new_tokens = 0;
  int64_t n_answered = 0;      // of its request
  int64_t room = 0;            // the most ids that the sequence can hold
  int64_t first = 0;           // the index of the id at its position 0
  int64_t n_shared = 0;        // ids that its sequence began with
  int64_t n_loaded = 0;        // ids behind them that a snapshot had
  bool last_row_pass = false;  // generation is over, the last id's rows are still wanted
  StopReason stop_reason = StopReason::kMaxNewTokens;
  Clock::time_point admitted;
  Clock::time_point prefilled;
  bool prefill_done = false;
  bool probed = false;  // the probes were told of it
  Kept kept;
  KeptPoints kept_points;
  double* share_s = nullptr;  // of its timings, what the step counts for; null: nothing

  std::vector<int32_t>& ids() const { return completion->ids; }
  int64_t n_ids() const { return static_cast<int64_t>(completion->ids.size()); }
  std::span<int32_t> held_ids() const { return std::span(completion->ids).subspan(first); }
  int64_t n_generated() const { return n_ids() - completion->prompt_len; }
  // The next token, which a step has brought.
  void Append(int32_t token) const {
    ids().push_back(token);
    completion->timings.decode_s = Seconds(prefilled, Clock::now());
    completion->timings.decode_tokens = n_generated() - 1;
  }
};

class Loop {
 public:
  Loop(const GenerateParts& parts, const GenerateSettings& settings,
       std::span<const GenerateRequest> requests, const GenerateOptions& options);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  absl::StatusOr<std::vector<Completion>> Run();

 private:
  void AttachObservers();
  // Begins the requests that come next, as far as there is room for them.
  absl::Status Admit();
  // The request's completion with its prompt.
  Completion& Begin(size_t index);
  // The next request, its sequence open, is fed from now on.
  absl::Status Activate(std::unique_ptr<Active> active);
  // Tells the sampler's stages how the request begins.
  absl::Status OpenStages(const Active& active);
  // Opens the request's sequence, or takes the one that it brings.
  absl::Status OpenSequence(const GenerateRequest& request, Active& active);
  // Whether every token of the prompts is fed because somebody looks at it.
  bool KeepsPrompt() const;
  // Whether the request's keys and values may come from others, and others have its.
  bool Shares(const GenerateRequest& request) const;
  // An active request is about to compute what the request would have for nothing afterwards.
  bool WillBeShared(const GenerateRequest& request) const;
  // Fills the sequence of a request that has just begun from its snapshot.
  absl::Status LoadSnapshot(Active& active);
  // Tells the probes how the request begins.
  absl::Status BeginProbes(Active& active);
  // All of the request's prompt has been fed.
  absl::Status EndPrefill(Active& active);
  // Admits, then feeds every active request one step's tokens.
  absl::Status Turn();
  absl::Status Step();
  // What the step feeds of a request, its place in the step being `entry`.
  Fed WhatToFeed(const Active& active, int entry) const;
  // Keeps, chooses and retires by what the step has computed.
  absl::Status ReadStep();
  // Adds the step's time to the timings of those that it fed.
  void ShareTime();
  // logits: [vocab_size]
  absl::Status Choose(Active& active, std::span<const float> logits);
  // Takes the program's token in place of a choice (GenerateOptions::next_token).
  absl::Status TakeGiven(Active& active, int64_t step);
  absl::Status Retire(size_t active_index, StopReason reason);
  // Ends what is active and what has not begun.
  absl::Status End(StopReason reason);
  absl::Status Report(size_t index);
  bool Finished(const Active& active) const;
  bool StopRequested() const;
  // Traces non-finite logits back to the first layer that made them.
  absl::Status NotFinite(Active& active);

  LanguageModel& model_;
  SamplerChain& chain_;
  const CacheSnapshots* snapshots_;
  ProbeChain* const probes_;  // null: nobody looks
  const GenerateSettings& settings_;
  const std::span<const GenerateRequest> requests_;
  const GenerateOptions& options_;
  Recorder recorder_;
  std::vector<Completion> completions_;
  std::vector<std::unique_ptr<Active>> active_;
  std::vector<int> free_slots_;
  size_t next_request_ = 0;
  bool cache_full_ = false;  // for the next request, until one of the active ones ends
  // Reused by every step.
  std::vector<Fed> fed_;  // of active_, in its order
  std::vector<StepSequence> step_sequences_;
  std::vector<size_t> done_;
  std::chrono::steady_clock::time_point step_begin_;
  ObserverList observers_;
  std::unique_ptr<StepObserver> cache_debug_;
  std::unique_ptr<StepObserver> progress_;
  std::unique_ptr<PointRecorder> points_;
  std::unique_ptr<StepObserver> watch_;
};

Loop::Loop(const GenerateParts& parts, const GenerateSettings& settings,
           std::span<const GenerateRequest> requests, const GenerateOptions& options)
    : model_(parts.model),
      chain_(parts.chain),
      snapshots_(parts.snapshots),
      probes_(parts.probes == nullptr || parts.probes->empty() ? nullptr : parts.probes),
      settings_(settings),
      requests_(requests),
      options_(options),
      recorder_(model_.shape(), options),
      completions_(requests.size()) {
  for (int slot = settings_.max_sequences; slot-- > 0;) free_slots_.push_back(slot);
  AttachObservers();
}

// What an exception has left open.
Loop::~Loop() {
  for (const std::unique_ptr<Active>& active : active_) {
    if (active->owns_sequence) model_.CloseSequence(active->sequence);
  }
}

bool Loop::StopRequested() const {
  return settings_.stop != nullptr && settings_.stop->load(std::memory_order_relaxed);
}

absl::Status Loop::Turn() {
  NG_RETURN_IF_ERROR(Admit());
  return active_.empty() ? absl::OkStatus() : Step();
}

absl::StatusOr<std::vector<Completion>> Loop::Run() {
  absl::Status status;
  while (status.ok() && !StopRequested() &&
         (next_request_ < requests_.size() || !active_.empty())) {
    status = Caught([&] { return Turn(); });
  }
  // An error that comes together with a signal is an error.
  const bool interrupted = absl::IsCancelled(status) || (status.ok() && StopRequested());
  if (interrupted) status = absl::OkStatus();
  status.Update(End(interrupted ? StopReason::kInterrupted : StopReason::kError));
  if (!status.ok()) return status;
  return std::move(completions_);
}

absl::Status Loop::End(StopReason reason) {
  absl::Status status;
  while (!active_.empty()) {
    // A request that only waits for its last row has ended as it did.
    const Active& first = *active_.front();
    const StopReason ended = first.last_row_pass ? first.stop_reason : reason;
    status.Update(Caught([&] { return Retire(0, ended); }));
  }
  while (next_request_ < requests_.size()) {
    const size_t index = next_request_++;
    Begin(index).stop_reason = reason;
    status.Update(Report(index));
  }
  return status;
}

Completion& Loop::Begin(size_t index) {
  Completion& completion = completions_[index];
  completion.ids = requests_[index].prompt_ids;
  completion.prompt_len = static_cast<int64_t>(completion.ids.size());
  completion.timings.load_s = settings_.load_s;
  return completion;
}

absl::Status Loop::Report(size_t index) {
  if (!options_.on_done) return absl::OkStatus();
  return options_.on_done(static_cast<int>(index), completions_[index]);
}

void Loop::AttachObservers() {
  observers_ = {};
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

bool Loop::KeepsPrompt() const {
  return recorder_.keeps_prompt() || (probes_ != nullptr && probes_->every_token());
}

bool Loop::Shares(const GenerateRequest& request) const {
  // Rows that are looked at must be computed.
  if (!settings_.use_cache || KeepsPrompt()) return false;
  // Others have computed theirs without these edits, or with edits for another request.
  if (probes_ != nullptr && probes_->edits()) return false;
  // Beyond the context every id gets another position.
  const auto prompt_len = static_cast<int64_t>(request.prompt_ids.size());
  return !request.sequence.has_value() && prompt_len <= settings_.context &&
         request.max_new_tokens <= settings_.context - prompt_len;
}

bool Loop::WillBeShared(const GenerateRequest& request) const {
  const int64_t piece = model_.share_tokens();
  if (piece == 0 || !Shares(request)) return false;
  const std::vector<int32_t>& prompt = request.prompt_ids;
  return std::ranges::any_of(active_, [&](const std::unique_ptr<Active>& active) {
    if (active->prefill_done || !Shares(requests_[static_cast<size_t>(active->index)])) {
      return false;
    }
    const std::vector<int32_t>& other = active->ids();
    const auto differ = std::mismatch(prompt.begin(), prompt.end() - 1, other.begin(), other.end());
    const auto n_common = static_cast<int64_t>(differ.first - prompt.begin());
    return n_common / piece > model_.Length(active->sequence) / piece;
  });
}

absl::Status Loop::OpenSequence(const GenerateRequest& request, Active& active) {
  if (request.sequence.has_value()) {
    active.sequence = *request.sequence;
    active.owns_sequence = false;
    return absl::OkStatus();
  }
  const auto prompt_len = static_cast<int64_t>(request.prompt_ids.size());
  const int64_t wanted = std::min(prompt_len + active.max_new_tokens, settings_.context);
  std::span<const int32_t> prompt;
  if (Shares(request)) prompt = request.prompt_ids;
  NG_ASSIGN_OR_RETURN(active.sequence, model_.OpenSequence(prompt, wanted));
  active.n_shared = model_.Length(active.sequence);
  return absl::OkStatus();
}

absl::Status Loop::Admit() {
  while (next_request_ < requests_.size() && !free_slots_.empty() && !cache_full_) {
    const GenerateRequest& request = requests_[next_request_];
    const bool looked_at = KeepsPrompt() || options_.on_point;
    if (request.max_new_tokens <= 0 && !looked_at && !HasSnapshot(request)) {
      Begin(next_request_);
      NG_RETURN_IF_ERROR(Report(next_request_++));  // the prompt comes back as it is
      continue;
    }
    if (WillBeShared(request)) break;
    auto active = std::make_unique<Active>();
    active->index = static_cast<int>(next_request_);
    active->max_new_tokens = std::max<int64_t>(0, request.max_new_tokens);
    active->n_answered = request.n_answered;
    active->admitted = Clock::now();
    const absl::Status opened = OpenSequence(request, *active);
    // Room comes when one of the others ends.
    cache_full_ = absl::IsResourceExhausted(opened) && !active_.empty();
    if (cache_full_) break;
    NG_RETURN_IF_ERROR(opened);
    NG_RETURN_IF_ERROR(Activate(std::move(active)));
    if (!request.load_cache.empty()) NG_RETURN_IF_ERROR(LoadSnapshot(*active_.back()));
    if (probes_ != nullptr) NG_RETURN_IF_ERROR(BeginProbes(*active_.back()));
  }
  return absl::OkStatus();
}

absl::Status Loop::Activate(std::unique_ptr<Active> active) {
  active->completion = &Begin(next_request_++);
  const int64_t prompt_len = active->completion->prompt_len;
  active->ids().reserve(static_cast<size_t>(prompt_len + active->max_new_tokens));
  active->room = std::min(model_.Capacity(active->sequence), settings_.context);
  active->first = std::max<int64_t>(0, prompt_len - active->room);
  active->kept_points.begin = active->kept_points.end =
      std::max(model_.Length(active->sequence), options_.capture_points_from);
  active->slot = free_slots_.back();
  absl::Status opened = OpenStages(*active);
  if (!opened.ok()) {
    if (active->owns_sequence) model_.CloseSequence(active->sequence);
    return opened;
  }
  free_slots_.pop_back();
  active_.push_back(std::move(active));
  return absl::OkStatus();
}

absl::Status Loop::OpenStages(const Active& active) {
  const std::span<const int32_t> ids = active.ids();
  const size_t n_asked = ids.size() - static_cast<size_t>(active.n_answered);
  NG_RETURN_IF_ERROR(chain_.Open(active.slot, ids.first(n_asked)));
  for (const int32_t token : ids.subspan(n_asked)) {
    absl::Status told = chain_.Accept(active.slot, token).status();
    if (told.ok()) continue;
    chain_.Close(active.slot).IgnoreError();
    return told;
  }
  return absl::OkStatus();
}

absl::Status Loop::LoadSnapshot(Active& active) {
  const GenerateRequest& request = requests_[static_cast<size_t>(active.index)];
  NG_ASSIGN_OR_RETURN(const CacheFile file, snapshots_->Open(request.load_cache));
  NG_RETURN_IF_ERROR(CheckBegins(file, request.prompt_ids));
  const int64_t end = std::min(std::ssize(file.header().ids), std::ssize(request.prompt_ids) - 1);
  NG_RETURN_IF_ERROR(snapshots_->Load(file, end, active.sequence));
  active.n_loaded = model_.Length(active.sequence) - active.n_shared;
  return absl::OkStatus();
}

absl::Status Loop::BeginProbes(Active& active) {
  active.probed = true;
  return probes_->Begin({.index = active.index,
                         .prompt_ids = active.ids(),
                         .n_held = model_.Length(active.sequence)});
}

absl::Status Loop::EndPrefill(Active& active) {
  active.prefill_done = true;
  Timings& timings = active.completion->timings;
  timings.prefill_s = Seconds(active.admitted, Clock::now());
  timings.shared_tokens = active.n_shared;
  timings.loaded_tokens = active.n_loaded;
  timings.prefill_tokens =
      std::min(active.completion->prompt_len, active.room) - active.n_shared - active.n_loaded;
  const std::string& path = requests_[static_cast<size_t>(active.index)].save_cache;
  const Clock::time_point end = Clock::now();
  if (!path.empty()) {
    NG_RETURN_IF_ERROR(snapshots_->Save(active.sequence, active.held_ids(), path));
  }
  active.prefilled = Clock::now();
  step_begin_ += active.prefilled - end;
  return absl::OkStatus();
}

Fed Loop::WhatToFeed(const Active& active, int entry) const {
  const int64_t begin = model_.Length(active.sequence);
  const int64_t n_held = std::ssize(active.held_ids());
  int64_t n_tokens = n_held - begin;
  if (settings_.prefill_chunk > 0) n_tokens = std::min(n_tokens, settings_.prefill_chunk);
  const int64_t end = begin + n_tokens;
  return {.index = active.index,
          .entry = entry,
          .begin = begin,
          .end = end,
          .newest = end == n_held,
          .again = active.last_row_pass};
}

absl::Status Loop::Step() {
  step_begin_ = Clock::now();
  fed_.clear();
  step_sequences_.clear();
  recorder_.BeginStep();
  for (size_t i = 0; i < active_.size(); ++i) {
    Active& active = *active_[i];
    Timings& timings = active.completion->timings;
    active.share_s = active.last_row_pass  ? nullptr
                     : active.prefill_done ? &timings.decode_share_s
                                           : &timings.prefill_share_s;
    const Fed fed = WhatToFeed(active, static_cast<int>(i));
    const auto n_tokens = static_cast<size_t>(fed.end - fed.begin);
    StepSequence sequence;
    sequence.sequence = active.sequence;
    sequence.start_pos = fed.begin;
    sequence.tokens = active.held_ids().subspan(static_cast<size_t>(fed.begin), n_tokens);
    sequence.n_logit_rows = recorder_.Want(fed, *active.completion, active.kept);
    if (probes_ != nullptr && probes_->every_logit()) {
      sequence.n_logit_rows = fed.end - fed.begin;
    }
    sequence.request = active.index;
    step_sequences_.push_back(sequence);
    fed_.push_back(fed);
    if (points_ == nullptr) continue;
    points_->Add(active.sequence, &active.kept_points, &active.completion->captured.points);
  }

  StepBatch batch;
  batch.sequences = step_sequences_;
  batch.captures = recorder_.captures();
  batch.stop = settings_.stop;
  if (!observers_.empty()) batch.observer = &observers_;
  const absl::Status computed = Caught([&] { return model_.Forward(batch); });
  if (points_ != nullptr) points_->EndStep(computed.ok());
  NG_RETURN_IF_ERROR(computed);
  return ReadStep();
}

absl::Status Loop::ReadStep() {
  const TensorView<const float, 2> logits = model_.logits();
  const int64_t vocab_size = logits.extent[1];
  const float* rows = logits.data;
  done_.clear();
  for (size_t i = 0; i < active_.size(); ++i) {
    Active& active = *active_[i];
    const int64_t n_rows = step_sequences_[i].n_logit_rows;
    recorder_.Keep(fed_[i], {rows, {n_rows, vocab_size}}, active.completion, &active.kept);
    rows += n_rows * vocab_size;
    if (!fed_[i].newest) continue;  // more of the prompt to come
    if (!active.prefill_done) NG_RETURN_IF_ERROR(EndPrefill(active));
    if (!active.last_row_pass && active.n_generated() < active.max_new_tokens) {
      NG_RETURN_IF_ERROR(Choose(active, {rows - vocab_size, static_cast<size_t>(vocab_size)}));
    }
    const int64_t capacity = model_.Capacity(active.sequence);
    const bool wants_newest = recorder_.WantsNewest(*active.completion, active.kept, capacity);
    if (Finished(active) && (active.last_row_pass || !wants_newest)) {
      done_.push_back(i);
      continue;
    }
    active.last_row_pass = Finished(active);
    // Uncached, or with every position changed by a first id that has to go: nothing is kept, and
    // all ids are fed again. (The pass for the last id's rows reads what is already there.)
    const bool full = active.n_ids() - active.first > active.room;
    if (full) active.first = active.n_ids() - active.room;
    if (full || !settings_.use_cache) NG_RETURN_IF_ERROR(model_.Truncate(active.sequence, 0));
  }
  ShareTime();
  for (size_t i = done_.size(); i-- > 0;) {
    NG_RETURN_IF_ERROR(Retire(done_[i], active_[done_[i]]->stop_reason));
  }
  return absl::OkStatus();
}

void Loop::ShareTime() {
  size_t n_fed = 0;
  for (const StepSequence& fed : step_sequences_) n_fed += fed.tokens.size();
  const double per_token = Seconds(step_begin_, Clock::now()) / static_cast<double>(n_fed);
  for (size_t i = 0; i < active_.size(); ++i) {
    double* const share_s = active_[i]->share_s;
    const auto n_own = static_cast<double>(step_sequences_[i].tokens.size());
    if (share_s != nullptr) *share_s += n_own * per_token;
  }
}

absl::Status Loop::Choose(Active& active, std::span<const float> logits) {
  const int64_t step = active.n_answered + active.n_generated();
  if (options_.next_token) return TakeGiven(active, step);
  if (!AllFinite(logits)) return NotFinite(active);
  StepRecord record;
  NG_ASSIGN_OR_RETURN(const int32_t token,
                      chain_.Choose(active.slot, logits,
                                    {.seed = settings_.seed, .request = active.index, .step = step},
                                    options_.stages ? &record.stages : nullptr));
  recorder_.KeepChoice(logits, active.completion);
  active.Append(token);
  NG_ASSIGN_OR_RETURN(const SequenceEnd end, chain_.Accept(active.slot, token));
  if (probes_ != nullptr) NG_RETURN_IF_ERROR(probes_->Accept(active.index, token));
  active.stop_reason = ReasonToStop(settings_.stop_ids, token, end);
  NG_ASSIGN_OR_RETURN(const int64_t held_bytes, chain_.HeldBytes(active.slot));
  if (active.stop_reason == StopReason::kStopText) active.completion->held_bytes = held_bytes;
  if (!options_.on_step) return absl::OkStatus();

  record.step = step;
  record.token_id = token;
  record.held_bytes = held_bytes;
  if (options_.steps) {
    StepStats stats = ComputeStepStats(logits, token, kRecordedTop);
    record.logprob = stats.logprob;
    record.entropy = stats.entropy;
    record.top_k = std::move(stats.top);
  }
  if (options_.logits_hash) record.logits_hash = HashOf(std::as_bytes(logits));
  record.attn_rows = std::move(active.kept.last_rows);
  return options_.on_step(active.index, record);
}

absl::Status Loop::TakeGiven(Active& active, int64_t step) {
  NG_ASSIGN_OR_RETURN(const GivenToken given, options_.next_token(active.index, step));
  NG_RETURN_IF_ERROR(CheckIds(model_.shape(), {&given.token, 1}));
  active.Append(given.token);
  if (given.last) active.max_new_tokens = active.n_generated();
  return absl::OkStatus();
}

bool Loop::Finished(const Active& active) const {
  return active.stop_reason != StopReason::kMaxNewTokens ||
         active.n_generated() >= active.max_new_tokens;
}

absl::Status Loop::Retire(size_t active_index, StopReason reason) {
  const std::unique_ptr<Active> active = std::move(active_[active_index]);
  active_.erase(active_.begin() + static_cast<int64_t>(active_index));
  cache_full_ = false;
  active->completion->stop_reason = reason;
  if (active->owns_sequence) model_.CloseSequence(active->sequence);
  free_slots_.push_back(active->slot);
  absl::Status closed = chain_.Close(active->slot);
  if (active->probed) closed.Update(probes_->End(active->index));
  const absl::Status reported = Report(static_cast<size_t>(active->index));
  return closed.ok() ? reported : closed;
}

absl::Status Loop::NotFinite(Active& active) {
  const std::string message = absl::StrCat("request ", active.index, ", step ",
                                           active.n_generated(), ": the logits are not finite");
  // The same ids once more, in one piece and with a look at every layer.
  NonFiniteFinder finder;
  const StepSequence again{active.sequence, 0, active.held_ids(), 1, active.index};
  StepBatch batch;
  batch.sequences = {&again, 1};
  ObserverList observers;
  if (probes_ != nullptr && probes_->edits()) observers.Add(probes_);
  observers.Add(&finder);
  batch.observer = &observers;
  NG_RETURN_IF_ERROR(model_.Truncate(active.sequence, 0));
  const absl::Status traced = model_.Forward(batch);
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

}  // namespace

absl::StatusOr<std::vector<Completion>> Generate(const GenerateParts& parts,
                                                 const GenerateSettings& settings,
                                                 std::span<const GenerateRequest> requests,
                                                 const GenerateOptions& options) {
  return Loop(parts, settings, requests, options).Run();
}

}  // namespace ng
