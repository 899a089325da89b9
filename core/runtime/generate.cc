#include "core/runtime/generate.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/step_observers.h"

namespace ng {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRecordedTopK = 10;

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

}  // namespace

absl::Status CheckCap(int64_t prompt_len, int64_t max_new_tokens, int64_t limit,
                      std::string_view limit_name) {
  const absl::string_view name(limit_name.data(), limit_name.size());
  const int64_t max_new = std::max<int64_t>(0, max_new_tokens);
  if (prompt_len > limit) {
    return LimitError(absl::StrCat("prompt length exceeds ", name, ": prompt ", prompt_len, " > ",
                                   limit, " ", name));
  }
  // Compared by difference: the sum may not fit an int64.
  if (max_new <= limit - prompt_len) return absl::OkStatus();
  const absl::uint128 sum = absl::uint128(prompt_len) + absl::uint128(max_new);
  return LimitError(absl::StrCat("prompt ", prompt_len, " + max_new_tokens ", max_new, " = ",
                                 static_cast<uint64_t>(sum), " > ", limit, " ", name,
                                 "; lower run.max_new_tokens to ", limit - prompt_len));
}

// A request between admission and retirement.
struct GenerateLoop::Active {
  int index = 0;  // of its request
  int slot = 0;   // in the sampler chain
  SequenceId sequence = 0;
  bool owns_sequence = true;
  Completion* completion = nullptr;
  int64_t max_new_tokens = 0;
  int64_t window = 0;          // the most ids that the sequence can hold
  int64_t first = 0;           // the index of the id at its position 0
  int64_t n_shared = 0;        // ids that its sequence began with
  int64_t n_loaded = 0;        // ids behind them that a snapshot had
  int64_t n_logits_kept = 0;   // prompt rows already in captured.logits
  int64_t n_rows_kept = 0;     // queries already in captured.attn_full
  bool last_row_pass = false;  // generation is over, the last id's rows are still wanted
  StopReason stop_reason = StopReason::kMaxNewTokens;
  Clock::time_point admitted;
  Clock::time_point prefilled;
  bool prefill_done = false;
  double* share_s = nullptr;            // of its timings, what the step counts for; null: nothing
  std::vector<AttentionRow> attn_rows;  // of the query that was fed last

  std::vector<int32_t>& ids() const { return completion->ids; }
  int64_t n_ids() const { return static_cast<int64_t>(completion->ids.size()); }
  std::span<int32_t> held_ids() const { return std::span(completion->ids).subspan(first); }
  int64_t n_generated() const { return n_ids() - completion->prompt_len; }
};

GenerateLoop::GenerateLoop(LanguageModel& model, SamplerChain& chain,
                           const GenerateSettings& settings)
    : model_(model), chain_(chain), settings_(settings) {}

// What an exception has left open.
GenerateLoop::~GenerateLoop() {
  for (const std::unique_ptr<Active>& active : active_) {
    if (active->owns_sequence) model_.CloseSequence(active->sequence);
  }
}

bool GenerateLoop::StopRequested() const {
  return settings_.stop != nullptr && settings_.stop->load(std::memory_order_relaxed);
}

absl::StatusOr<std::vector<Completion>> GenerateLoop::Run(std::span<const GenerateRequest> requests,
                                                          const GenerateOptions& options) {
  requests_ = requests;
  options_ = &options;
  completions_.assign(requests.size(), {});
  active_.clear();
  next_request_ = 0;
  cache_full_ = false;
  free_slots_.clear();
  for (int slot = settings_.max_sequences; slot-- > 0;) free_slots_.push_back(slot);
  recorder_ = std::make_unique<Recorder>(model_.shape(), options.trace_layers, options.trace_heads);
  AttachObservers();

  absl::Status status;
  while (status.ok() && !StopRequested() &&
         (next_request_ < requests_.size() || !active_.empty())) {
    status = Admit();
    if (status.ok() && !active_.empty()) status = Step();
  }
  // An error that comes together with a signal is an error.
  const bool interrupted = absl::IsCancelled(status) || (status.ok() && StopRequested());
  if (interrupted) status = absl::OkStatus();
  status.Update(End(interrupted ? StopReason::kInterrupted : StopReason::kError));
  if (!status.ok()) return status;
  return std::move(completions_);
}

absl::Status GenerateLoop::End(StopReason reason) {
  absl::Status status;
  while (!active_.empty()) {
    // A request that only waits for its last row has ended as it did.
    const Active& first = *active_.front();
    status.Update(Retire(0, first.last_row_pass ? first.stop_reason : reason));
  }
  while (next_request_ < requests_.size()) {
    const size_t index = next_request_++;
    Begin(index).stop_reason = reason;
    status.Update(Report(index));
  }
  return status;
}

Completion& GenerateLoop::Begin(size_t index) {
  Completion& completion = completions_[index];
  completion.ids = requests_[index].prompt_ids;
  completion.prompt_len = static_cast<int64_t>(completion.ids.size());
  completion.timings.load_s = settings_.load_s;
  return completion;
}

absl::Status GenerateLoop::Report(size_t index) {
  if (!options_->on_done) return absl::OkStatus();
  return options_->on_done(static_cast<int>(index), completions_[index]);
}

void GenerateLoop::AttachObservers() {
  observers_ = {};
  if (options_->on_cache_debug) {
    cache_debug_ = std::make_unique<CacheDebugObserver>(model_.shape(), options_->cache_debug_layer,
                                                        options_->on_cache_debug);
    observers_.Add(cache_debug_.get());
  }
  if (settings_.progress) {
    progress_ = std::make_unique<PrefillProgressObserver>(model_.shape(), settings_.progress);
    observers_.Add(progress_.get());
  }
}

bool GenerateLoop::LooksAtPrompt() const {
  return options_->capture_logits || options_->capture_attn_full;
}

bool GenerateLoop::Shares(const GenerateRequest& request) const {
  // Rows that are looked at must be computed.
  if (!settings_.use_cache || LooksAtPrompt()) return false;
  // Beyond the context every id gets another position.
  const auto prompt_len = static_cast<int64_t>(request.prompt_ids.size());
  return !request.sequence.has_value() && prompt_len <= settings_.context &&
         request.max_new_tokens <= settings_.context - prompt_len;
}

bool GenerateLoop::WillBeShared(const GenerateRequest& request) const {
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

absl::Status GenerateLoop::OpenSequence(const GenerateRequest& request, Active& active) {
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

absl::Status GenerateLoop::Admit() {
  while (next_request_ < requests_.size() && !free_slots_.empty() && !cache_full_) {
    const GenerateRequest& request = requests_[next_request_];
    if (request.max_new_tokens <= 0 && !LooksAtPrompt() && !HasSnapshot(request)) {
      Begin(next_request_);
      NG_RETURN_IF_ERROR(Report(next_request_++));  // the prompt comes back as it is
      continue;
    }
    if (WillBeShared(request)) break;
    auto active = std::make_unique<Active>();
    active->index = static_cast<int>(next_request_);
    active->max_new_tokens = std::max<int64_t>(0, request.max_new_tokens);
    active->admitted = Clock::now();
    const absl::Status opened = OpenSequence(request, *active);
    // Room comes when one of the others ends.
    cache_full_ = absl::IsResourceExhausted(opened) && !active_.empty();
    if (cache_full_) break;
    NG_RETURN_IF_ERROR(opened);
    NG_RETURN_IF_ERROR(Activate(std::move(active)));
    if (!request.load_cache.empty()) NG_RETURN_IF_ERROR(LoadSnapshot(*active_.back()));
  }
  return absl::OkStatus();
}

absl::Status GenerateLoop::Activate(std::unique_ptr<Active> active) {
  active->completion = &Begin(next_request_++);
  const int64_t prompt_len = active->completion->prompt_len;
  active->ids().reserve(static_cast<size_t>(prompt_len + active->max_new_tokens));
  active->window = std::min(model_.Capacity(active->sequence), settings_.context);
  active->first = std::max<int64_t>(0, prompt_len - active->window);
  active->slot = free_slots_.back();
  absl::Status opened = chain_.Open(active->slot, active->ids());
  if (!opened.ok()) {
    if (active->owns_sequence) model_.CloseSequence(active->sequence);
    return opened;
  }
  free_slots_.pop_back();
  active_.push_back(std::move(active));
  return absl::OkStatus();
}

absl::Status GenerateLoop::LoadSnapshot(Active& active) {
  const GenerateRequest& request = requests_[static_cast<size_t>(active.index)];
  NG_ASSIGN_OR_RETURN(const CacheFile file, settings_.snapshots->Open(request.load_cache));
  NG_RETURN_IF_ERROR(CheckBegins(file, request.prompt_ids));
  const int64_t end = std::min(std::ssize(file.header().ids), std::ssize(request.prompt_ids) - 1);
  NG_RETURN_IF_ERROR(settings_.snapshots->Load(file, end, active.sequence));
  active.n_loaded = model_.Length(active.sequence) - active.n_shared;
  return absl::OkStatus();
}

absl::Status GenerateLoop::EndPrefill(Active& active) {
  active.prefill_done = true;
  Timings& timings = active.completion->timings;
  timings.prefill_s = Seconds(active.admitted, Clock::now());
  timings.shared_tokens = active.n_shared;
  timings.loaded_tokens = active.n_loaded;
  timings.prefill_tokens =
      std::min(active.completion->prompt_len, active.window) - active.n_shared - active.n_loaded;
  const std::string& path = requests_[static_cast<size_t>(active.index)].save_cache;
  const Clock::time_point end = Clock::now();
  if (!path.empty()) {
    NG_RETURN_IF_ERROR(settings_.snapshots->Save(active.sequence, active.held_ids(), path));
  }
  active.prefilled = Clock::now();
  step_begin_ += active.prefilled - end;
  return absl::OkStatus();
}

bool GenerateLoop::WantsLastRow(const Active& active) const {
  const int64_t max_positions = model_.shape().max_positions;
  return options_->capture_attn_full && recorder_->on() && active.n_rows_kept < active.n_ids() &&
         active.n_ids() <= model_.Capacity(active.sequence) &&
         (max_positions == 0 || active.n_ids() <= max_positions);
}

absl::Status GenerateLoop::Step() {
  step_begin_ = Clock::now();
  step_sequences_.clear();
  recorder_->BeginStep();
  for (size_t i = 0; i < active_.size(); ++i) {
    Active& active = *active_[i];
    Timings& timings = active.completion->timings;
    active.share_s = active.last_row_pass  ? nullptr
                     : active.prefill_done ? &timings.decode_share_s
                                           : &timings.prefill_share_s;
    const int64_t fed = model_.Length(active.sequence);
    const std::span<const int32_t> ids = active.held_ids();
    const auto n_ids = static_cast<int64_t>(ids.size());
    int64_t n_tokens = n_ids - fed;
    if (settings_.prefill_chunk > 0) n_tokens = std::min(n_tokens, settings_.prefill_chunk);
    const int64_t end = fed + n_tokens;
    const bool last = end == n_ids;
    StepSequence sequence;
    sequence.sequence = active.sequence;
    sequence.start_pos = fed;
    sequence.tokens = ids.subspan(static_cast<size_t>(fed), static_cast<size_t>(n_tokens));
    const bool keeps_logits =
        options_->capture_logits && active.n_logits_kept < active.completion->prompt_len;
    sequence.n_logit_rows = keeps_logits ? n_tokens : last && !active.last_row_pass ? 1 : 0;
    step_sequences_.push_back(sequence);

    int64_t first_wanted = last ? end - 1 : end;
    if (options_->capture_attn_full) first_wanted = std::max(fed, active.n_rows_kept);
    recorder_->Want(static_cast<int>(i), first_wanted, end);
  }

  StepBatch batch;
  batch.sequences = step_sequences_;
  batch.captures = recorder_->captures();
  batch.stop = settings_.stop;
  if (!observers_.empty()) batch.observer = &observers_;
  NG_RETURN_IF_ERROR(model_.Forward(batch));
  return ReadStep();
}

absl::Status GenerateLoop::ReadStep() {
  int64_t logit_row = 0;
  done_.clear();
  for (size_t i = 0; i < active_.size(); ++i) {
    Active& active = *active_[i];
    const StepSequence& fed = step_sequences_[i];
    const int64_t end = fed.start_pos + static_cast<int64_t>(fed.tokens.size());
    KeepTensors(active, i, logit_row);
    logit_row += fed.n_logit_rows;
    if (active.first + end < active.n_ids()) continue;  // more of the prompt to come
    if (!active.prefill_done) NG_RETURN_IF_ERROR(EndPrefill(active));
    if (!active.last_row_pass && active.n_generated() < active.max_new_tokens) {
      NG_RETURN_IF_ERROR(Choose(active, logit_row - 1));
    }
    if (Finished(active) && (active.last_row_pass || !WantsLastRow(active))) {
      done_.push_back(i);
      continue;
    }
    active.last_row_pass = Finished(active);
    // Uncached, or with every position changed by a first id that has to go: nothing is kept, and
    // all ids are fed again. (The pass for the last id's rows reads what is already there.)
    const bool full = active.n_ids() - active.first > active.window;
    if (full) active.first = active.n_ids() - active.window;
    if (full || !settings_.use_cache) NG_RETURN_IF_ERROR(model_.Truncate(active.sequence, 0));
  }
  ShareTime();
  for (size_t i = done_.size(); i-- > 0;) {
    NG_RETURN_IF_ERROR(Retire(done_[i], active_[done_[i]]->stop_reason));
  }
  return absl::OkStatus();
}

void GenerateLoop::ShareTime() {
  size_t n_fed = 0;
  for (const StepSequence& fed : step_sequences_) n_fed += fed.tokens.size();
  const double per_token = Seconds(step_begin_, Clock::now()) / static_cast<double>(n_fed);
  for (size_t i = 0; i < active_.size(); ++i) {
    double* const share_s = active_[i]->share_s;
    const auto n_own = static_cast<double>(step_sequences_[i].tokens.size());
    if (share_s != nullptr) *share_s += n_own * per_token;
  }
}

void GenerateLoop::KeepTensors(Active& active, size_t batch_index, int64_t logit_row) {
  const StepSequence& fed = step_sequences_[batch_index];
  const auto n_tokens = static_cast<int64_t>(fed.tokens.size());
  const int64_t end = fed.start_pos + n_tokens;
  CapturedTensors& captured = active.completion->captured;
  if (options_->capture_logits && active.n_logits_kept < active.completion->prompt_len) {
    const TensorView<const float, 2> logits = model_.logits();
    const float* rows = logits.Row(logit_row);
    captured.logits.insert(captured.logits.end(), rows, rows + n_tokens * logits.extent[1]);
    active.n_logits_kept = end;
  }
  if (!recorder_->on()) return;
  const bool last = active.first + end == active.n_ids();
  int64_t pos = options_->capture_attn_full ? std::max(fed.start_pos, active.n_rows_kept)
                                            : end - (last ? 1 : 0);
  for (; pos < end; ++pos) {
    std::vector<AttentionRow> rows = recorder_->Take(static_cast<int>(batch_index), pos);
    if (last && pos == end - 1) active.attn_rows = rows;
    if (!options_->capture_attn_full) continue;
    active.n_rows_kept = pos + 1;
    std::move(rows.begin(), rows.end(), std::back_inserter(captured.attn_full));
  }
}

absl::Status GenerateLoop::Choose(Active& active, int64_t logit_row) {
  const TensorView<const float, 2> all = model_.logits();
  const std::span<const float> logits(all.Row(logit_row), static_cast<size_t>(all.extent[1]));
  if (!AllFinite(logits)) return NotFinite(active);
  const int64_t step = active.n_generated();
  NG_ASSIGN_OR_RETURN(
      const int32_t token,
      chain_.Choose(active.slot, logits,
                    {.seed = settings_.seed, .request = active.index, .step = step}));
  if (options_->capture_decode_logits) {
    std::vector<float>& kept = active.completion->captured.decode_logits;
    kept.insert(kept.end(), logits.begin(), logits.end());
  }
  active.ids().push_back(token);
  Timings& timings = active.completion->timings;
  timings.decode_s = Seconds(active.prefilled, Clock::now());
  timings.decode_tokens = active.n_generated() - 1;
  NG_ASSIGN_OR_RETURN(const SequenceEnd end, chain_.Accept(active.slot, token));
  active.stop_reason = ReasonToStop(settings_.stop_ids, token, end);
  if (!options_->on_step) return absl::OkStatus();

  StepRecord record;
  record.step = step;
  record.token_id = token;
  if (options_->steps) {
    StepStats stats = ComputeStepStats(logits, token, kRecordedTopK);
    record.logprob = stats.logprob;
    record.entropy = stats.entropy;
    record.top_k = std::move(stats.top);
  }
  record.attn_rows = std::move(active.attn_rows);
  return options_->on_step(active.index, record);
}

bool GenerateLoop::Finished(const Active& active) const {
  return active.stop_reason != StopReason::kMaxNewTokens ||
         active.n_generated() >= active.max_new_tokens;
}

absl::Status GenerateLoop::Retire(size_t active_index, StopReason reason) {
  const std::unique_ptr<Active> active = std::move(active_[active_index]);
  active_.erase(active_.begin() + static_cast<int64_t>(active_index));
  cache_full_ = false;
  active->completion->stop_reason = reason;
  if (active->owns_sequence) model_.CloseSequence(active->sequence);
  free_slots_.push_back(active->slot);
  const absl::Status closed = chain_.Close(active->slot);
  const absl::Status reported = Report(static_cast<size_t>(active->index));
  return closed.ok() ? reported : closed;
}

absl::Status GenerateLoop::NotFinite(Active& active) {
  const std::string message = absl::StrCat("request ", active.index, ", step ",
                                           active.n_generated(), ": the logits are not finite");
  // The same ids once more, in one piece and with a look at every layer.
  NonFiniteFinder finder;
  const StepSequence again{active.sequence, 0, active.held_ids(), 1};
  StepBatch batch;
  batch.sequences = {&again, 1};
  batch.observer = &finder;
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

}  // namespace ng
